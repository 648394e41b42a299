//! Worlds whose processes show their numbers.

use anyhow::Result;

use crate::client;
use crate::openmetrics::{Shown, scrape};
use crate::wait::{self, PATIENCE, Seen};
use crate::world::{Mix, Options, World, free_port};

/// A world with one process of each role and these settings (environment variables), and where the numbers of the API and of the conductor
/// are.
pub async fn watched(mix: Mix, settings: &[(&str, &str)]) -> Result<(World, String, String)> {
    let (api, conductor) = (free_port()?, free_port()?);
    let options = [("ENABLED", "true".to_owned()), ("API_PORT", api.to_string()), ("CONDUCTOR_PORT", conductor.to_string())];
    let shown = options.into_iter().map(|(key, value)| (format!("OS_METRICS__{key}"), value));
    let environment = shown.chain(settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))).collect();
    let world = World::start(mix, Options { apis: 1, conductors: 1, environment, ..Options::default() }).await?;
    let conductor = if mix == Mix::Embedded { api } else { conductor };
    // A world is there when its API answers; a conductor may not even listen by then.
    for port in [api, conductor] {
        let connect = async || {
            Ok(match tokio::net::TcpStream::connect(("127.0.0.1", port)).await {
                Ok(_) => Seen::Yes(()),
                Err(error) => Seen::Instead(error.to_string()),
            })
        };
        wait::until("the numbers to be shown", PATIENCE, connect).await?;
    }
    Ok((world, format!("http://127.0.0.1:{api}/metrics"), format!("http://127.0.0.1:{conductor}/metrics")))
}

/// Asks until the numbers are as wanted.
pub async fn until(url: &str, what: &str, holds: impl Fn(&Shown) -> bool) -> Result<Shown> {
    let http = client::http()?;
    wait::until(what, PATIENCE, async || {
        // Who shows them may just have been started.
        Ok(match scrape(&http, url).await {
            Ok(shown) if holds(&shown) => Seen::Yes(shown),
            Ok(shown) => Seen::Instead(format!("{shown:#?}")),
            Err(error) => Seen::Instead(format!("{error:#}")),
        })
    })
    .await
}
