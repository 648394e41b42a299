//! What `magnum-db-manage seal` and `unseal` do and tell.

use std::fmt::Write;

use anyhow::{Context, bail, ensure};
use model::store::sealing::{self, Conversion, Held};
use model::store::{Conn, Store};

/// What the rows are to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Sealed,
    Clear,
}

/// Brings every secret into the form that the configuration says; the report, and why it is not whole, if it is not.
///
/// # Errors
/// When the configuration has services write the other form: they would undo what is done here.
pub async fn convert(store: &Store, wanted: Wanted) -> anyhow::Result<(String, Option<String>)> {
    let seals = store.vault().seals();
    match wanted {
        Wanted::Sealed => ensure!(
            seals,
            "[certificates] seal_secrets is false: set it, and seal_key_file, for all services first, which would go on to write in the clear"
        ),
        Wanted::Clear => ensure!(!seals, "[certificates] seal_secrets is true: unset it for all services first, which would go on to seal"),
    }
    let done = Conversion::run(store).await.context("convert the secrets; the same command goes on from here")?;
    let mut text = String::new();
    let verb = if wanted == Wanted::Sealed { "Sealed" } else { "Opened" };
    let counts: Vec<String> = done.values.iter().map(|(column, count)| format!("{count} of {column}")).collect();
    line(&mut text, &format!("{verb}: {}", counts.join(", ")));
    for error in &done.refused {
        line(&mut text, &format!("Left as it is: {error}"));
    }
    if done.refused_more > 0 {
        line(&mut text, &format!("Left as they are: {} more", done.refused_more));
    }
    let held = census(store).await?;
    tell(&mut text, store, &held);
    let other: i64 = match wanted {
        Wanted::Sealed => held.iter().map(|held| held.clear).sum(),
        Wanted::Clear => held.iter().map(Held::sealed).sum(),
    };
    let problem = if !done.refused.is_empty() {
        Some(format!("{} values are as they were; each is named above with the reason", done.refused.len() + done.refused_more))
    } else if !done.is_whole() || other > 0 {
        Some(format!(
            "{other} values have the other form: a service that has not been started again since the option was changed writes it"
        ))
    } else {
        None
    };
    Ok((text, problem))
}

/// What the rows hold, and by which keys.
pub async fn census(store: &Store) -> anyhow::Result<Vec<Held>> {
    store.read(async |conn: &mut Conn| sealing::census(conn).await).await.context("count the secrets")
}

/// Tells it.
pub fn tell(text: &mut String, store: &Store, held: &[Held]) {
    for held in held {
        line(text, &format!("Secrets in {held}"));
    }
    let ids: Vec<&str> = store.vault().ids().collect();
    if !ids.is_empty() {
        line(text, &format!("Keys of [certificates] seal_key_file, the one that seals first: {}", ids.join(", ")));
    }
    for key in unknown(store, held) {
        line(text, &format!("The key {key} is not among them: what it has sealed cannot be opened"));
    }
}

/// Keys that have sealed something and are not there.
pub fn unknown(store: &Store, held: &[Held]) -> Vec<String> {
    let known: Vec<&str> = store.vault().ids().collect();
    let mut keys: Vec<String> =
        held.iter().flat_map(|held| held.sealed_by.keys()).filter(|key| !known.contains(&key.as_str())).cloned().collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Fails when the rows hold what no key of this process opens.
pub async fn check(store: &Store) -> anyhow::Result<()> {
    let keys = unknown(store, &census(store).await?);
    if !keys.is_empty() {
        bail!("[certificates] seal_key_file: secrets in the database are sealed by the keys {}, which it does not hold", keys.join(", "));
    }
    Ok(())
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a string cannot fail");
}
