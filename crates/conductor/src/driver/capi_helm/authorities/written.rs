//! What is truly written in the management cluster for a rotation. It is read again before each pass and when it has come to its end, and its
//! contents count beside its mark: who takes an operation over goes on from what is there, and what its former owner wrote late, or another by
//! hand, is written anew.

use chrono::{DateTime, SecondsFormat, Utc};
use model::time::now;
use serde_json::{Map, Value, json};

use super::{give, objects};
use crate::driver::capi_helm::{Bench, secrets};
use crate::outcome::Failure;

/// What a secret was written for, and when.
const MARK: &str = "magnum.openstack.org/written-for";
const SINCE: &str = "magnum.openstack.org/written-at";

/// A secret as it is; null where there is none.
pub(super) async fn read(bench: &Bench<'_>, name: &str) -> Result<Value, Failure> {
    Ok(bench.management.get("secret_get", &secrets(), Some(&bench.namespace), name).await?.unwrap_or_default())
}

/// Whether a secret holds every text that the other one is to bring.
pub(super) fn holds(held: &Value, wanted: &Value) -> bool {
    texts(wanted).iter().all(|(key, text)| held["data"][key] == *text)
}

/// Since when a secret has held what it is to hold; none where it does not, or was written for something else.
pub(super) fn since(held: &Value, wanted: &Value, mark: &str) -> Option<DateTime<Utc>> {
    let annotations = &held["metadata"]["annotations"];
    if annotations[MARK] != mark || !holds(held, wanted) {
        return None;
    }
    time(&annotations[SINCE])
}

/// What a secret holds beside what it is to hold.
pub(super) fn strangers(held: &Value, wanted: &Value) -> Vec<String> {
    let wanted = texts(wanted);
    held["data"].as_object().into_iter().flat_map(Map::keys).filter(|key| !wanted.contains_key(*key)).cloned().collect()
}

/// Takes these out of a secret: what was once brought as `stringData` nobody owns, and an apply without it leaves it there. Guarded by the caller.
pub(super) async fn drop_keys(bench: &Bench<'_>, name: &str, keys: &[String]) -> Result<(), Failure> {
    if keys.is_empty() {
        return Ok(());
    }
    let data: Map<String, Value> = keys.iter().map(|key| (key.clone(), Value::Null)).collect();
    let patch = json!({"data": data});
    let dropped = bench.management.merge("secret_patch", &secrets(), Some(&bench.namespace), name, &patch).await;
    if dropped.is_err() {
        bench.work.has_asked();
    }
    dropped?;
    Ok(())
}

/// Applies a secret with what it is written for, and since when it has been there. Guarded by the caller.
pub(super) async fn give_marked(bench: &Bench<'_>, mut secret: Value, mark: &str) -> Result<DateTime<Utc>, Failure> {
    let since = now();
    secret["metadata"]["annotations"] = json!({MARK: mark, SINCE: stamp(since)});
    give(bench, &secrets(), &bench.namespace, &secret).await?;
    Ok(since)
}

pub(super) fn time(text: &Value) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text.as_str()?).ok().map(|at| at.to_utc())
}

pub(super) fn stamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// What a document brings into a secret, as the API shows it.
fn texts(wanted: &Value) -> Map<String, Value> {
    let of = |part: &str| wanted[part].as_object().cloned().unwrap_or_default();
    let plain = of("stringData").into_iter().map(|(key, text)| (key, Value::from(objects::encoded(text.as_str().unwrap_or_default()))));
    of("data").into_iter().chain(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2026-01-01T00:00:00.500Z";

    /// A secret that was written for `mark` and holds these texts.
    fn held(mark: &str, texts: &[(&str, &str)]) -> Value {
        let data: Map<String, Value> = texts.iter().map(|(key, text)| ((*key).to_owned(), Value::from(objects::encoded(text)))).collect();
        json!({"metadata": {"annotations": {MARK: mark, SINCE: AT}}, "data": data})
    }

    #[test]
    fn a_secret_counts_for_what_it_was_written_for_and_holds() {
        let wanted = json!({"stringData": {"tls.crt": "CERT", "tls.key": "KEY"}});
        let good = held("g-trust", &[("tls.crt", "CERT"), ("tls.key", "KEY")]);
        assert_eq!(since(&good, &wanted, "g-trust").map(stamp).as_deref(), Some(AT));
        assert!(since(&good, &wanted, "g-sign").is_none() && since(&Value::Null, &wanted, "g-trust").is_none());
        // The mark of one owner, and what another wrote after him.
        for other in [held("g-trust", &[("tls.crt", "OTHER"), ("tls.key", "KEY")]), held("g-trust", &[("tls.crt", "CERT")])] {
            assert!(since(&other, &wanted, "g-trust").is_none() && !holds(&other, &wanted), "{other}");
        }
        let unmarked = json!({"data": good["data"]});
        assert!(holds(&unmarked, &wanted) && since(&unmarked, &wanted, "g-trust").is_none());
    }

    #[test]
    fn what_is_there_beside_is_found() {
        let wanted = json!({"data": {"1-nodes.json": objects::encoded("{}")}});
        assert_eq!(strangers(&held("h", &[("1-nodes.json", "{}"), ("2-extensions.json", "{}")]), &wanted), ["2-extensions.json"]);
        assert!(strangers(&held("h", &[("1-nodes.json", "[]")]), &wanted).is_empty());
        assert!(strangers(&Value::Null, &wanted).is_empty());
    }
}
