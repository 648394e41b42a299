//! Logging in at Keystone with a name and a password, as a user does.

use anyhow::{Context, Result, ensure};
use serde_json::json;

/// A token for a user on a project, all in the default domain.
pub async fn log_in(http: &reqwest::Client, auth_url: &str, user: &str, password: &str, project: &str) -> Result<String> {
    let domain = json!({"name": "Default"});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {"name": user, "password": password, "domain": domain}}},
        "scope": {"project": {"name": project, "domain": domain}},
    }});
    let url = format!("{auth_url}/auth/tokens");
    let request = http.post(&url).header("Content-Type", "application/json").body(body.to_string());
    let response = request.send().await.with_context(|| format!("POST {url}"))?;
    ensure!(response.status() == 201, "Keystone answered {} to the login of {user}", response.status());
    let token = response.headers().get("X-Subject-Token").context("Keystone's answer has no token")?;
    Ok(token.to_str().context("the token is no text")?.to_owned())
}
