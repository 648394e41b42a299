//! Logging in at Keystone: as a user does, and as programs inside a cluster do.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::client;
use crate::world::World;

/// What the masters of a cluster hold: the trustee's login, and the trust by which he acts; as its row has them.
pub struct Held {
    pub user: String,
    pub password: String,
    pub trust: String,
}

impl Held {
    pub async fn by(world: &World, cluster: &str) -> Result<Self> {
        let sql = format!("SELECT trustee_user_id, trustee_password, trust_id FROM cluster WHERE uuid = '{cluster}'");
        let rows: Vec<(String, String, String)> = world.database()?.rows(&sql).await?;
        let (user, password, trust) = rows.into_iter().next().context("a row")?;
        Ok(Self { user, password, trust })
    }

    /// What whoever has it logs in to.
    pub async fn token(&self, world: &World) -> Result<String> {
        let token = log_in_by_trust(&client::http()?, &world.auth_url, &self.user, &self.password, &self.trust).await?;
        world.keep_secret(&token, "a token through a trust");
        Ok(token)
    }
}

/// A token for a user on a project, all in the default domain.
pub async fn log_in(http: &reqwest::Client, auth_url: &str, user: &str, password: &str, project: &str) -> Result<String> {
    let domain = json!({"name": "Default"});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {"name": user, "password": password, "domain": domain}}},
        "scope": {"project": {"name": project, "domain": domain}},
    }});
    token(http, auth_url, &body, user).await
}

/// A token for a trustee who acts for the one who trusts him.
pub async fn log_in_by_trust(http: &reqwest::Client, auth_url: &str, user_id: &str, password: &str, trust: &str) -> Result<String> {
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {"id": user_id, "password": password}}},
        "scope": {"OS-TRUST:trust": {"id": trust}},
    }});
    token(http, auth_url, &body, user_id).await
}

async fn token(http: &reqwest::Client, auth_url: &str, body: &Value, user: &str) -> Result<String> {
    let url = format!("{auth_url}/auth/tokens");
    let request = http.post(&url).header("Content-Type", "application/json").body(body.to_string());
    let response = request.send().await.with_context(|| format!("POST {url}"))?;
    ensure!(response.status() == 201, "Keystone answered {} to the login of {user}", response.status());
    let token = response.headers().get("X-Subject-Token").context("Keystone's answer has no token")?;
    Ok(token.to_str().context("the token is no text")?.to_owned())
}
