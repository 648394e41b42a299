//! Doors for the fuzz targets (`tests/fuzz/` in the checkout): text from outside goes in, and nothing but an answer may come of it. Not an interface.

use std::sync::Arc;

use futures::FutureExt;
use provider_clients::TokenInfo;
use tokio::io::BufStream;

use crate::identity::Caller;
use crate::identity::memcached::Connection;
use crate::policy::{self, Act, Policy, PolicyFile, PolicyOptions, Target};
use crate::view::page;
use crate::view::patch::{self, Limits};
use crate::view::template::{TemplateView, empty};
use crate::{routes, template};

/// A policy file, and the same text as one rule.
///
/// # Panics
/// When a rule that was read is printed as another one.
pub fn policy(text: &str) {
    policy::read_and_print(text);
    let file = PolicyFile { name: "fuzz".into(), text: text.to_owned() };
    let Ok(policy) = Policy::new(PolicyOptions::default(), &[file]) else { return };
    let info = TokenInfo { user_id: "u1".into(), project_id: Some("p1".into()), roles: vec!["member".into()], ..TokenInfo::default() };
    let mut caller = Caller::new("token".into(), Arc::new(info));
    caller.is_admin = policy.is_admin(&caller);
    let row = empty("a".into(), "p1".into(), "u2".into());
    let target = Target { project_id: Some("p1"), user_id: Some("u2"), object: Some(&row), ..Target::default() };
    for act in Act::ALL {
        let _ = policy.allow(&caller, *act, &target);
    }
}

/// The body of a PATCH, applied to a template.
///
/// # Panics
/// When the patched template has other attributes than before.
pub fn patch(bytes: &[u8]) {
    let Ok(changes) = patch::parse(Some("application/json"), bytes, Limits { mandatory: &["coe"], internal: &["stack_id"], ident: None })
    else {
        return;
    };
    let row = empty("a".into(), "p1".into(), "u1".into());
    let names =
        |row| patch::document(&TemplateView { row, base: "" }).map(|map| map.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    if let Ok(patched) = template::update::patched(&row, &changes) {
        assert_eq!(names(&patched), names(&row));
        assert_eq!((&patched.uuid, &patched.project_id, &patched.user_id), (&row.uuid, &row.project_id, &row.user_id));
    }
}

/// A query string, and a path.
///
/// # Panics
/// When the link to the next page does not lead to the page that it says.
pub fn query(text: &str) {
    let _ = routes::segments(text);
    let Ok(pairs) = crate::server::pairs(text) else { return };
    let Ok(read) = page::parse(&pairs, 1000) else { return };
    // Only columns come as far as a link; none of them needs to be escaped.
    if read.sort_key.bytes().all(|b| b == b'_' || b.is_ascii_lowercase()) {
        let marker = "f4a42e6f-27e2-4e13-8939-b72792da7568";
        let items = usize::try_from(read.limit).unwrap_or_default();
        let next = page::Next::of("http://h", "clusters", &read, items, Some(marker)).expect("a full page has a next one").to_string();
        let linked = next.split_once('?').and_then(|(_, query)| crate::server::pairs(query).ok());
        let again = linked.and_then(|pairs| page::parse(&pairs, 1000).ok());
        assert_eq!(again, Some(page::PageQuery { marker: Some(marker.to_owned()), ..read }));
    }
}

/// What answers instead of memcached, to a question for a value and to one that is to be kept.
///
/// # Panics
/// When a value is found that was not told as the one that was asked for, one is taken for kept that memcached did not take, or more is waited
/// for than there is.
pub fn memcached(data: &[u8]) {
    let open = || Connection::over(BufStream::new(tokio::io::join(data, tokio::io::sink())));
    let found = open().get("name").now_or_never().expect("all of the answer is there");
    if let Ok(Some(value)) = found {
        let line = data.iter().position(|byte| *byte == b'\n').expect("a line was read");
        let is_told = data[line + 1..].starts_with(&[value.as_slice(), b"\r\nEND\r\n"].concat());
        assert!(is_told && data.starts_with(b"VALUE name "), "{value:?} was found");
    }
    let kept = open().set("name", b"value", 60).now_or_never().expect("all of the answer is there");
    assert!(kept.is_err() || data.starts_with(b"STORED\r\n"), "it was not kept");
}
