//! Texts from outside, and what reads them: a target returns, whatever it is given, or it has found a mistake.

/// What is given an input.
pub type Target = fn(&[u8]);

/// Every target, and the folder of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("policy", policy),
    ("patch", patch),
    ("query", query),
    ("config", config),
    ("csr", csr),
    ("signing", signing),
    ("message", message),
    ("memcached", memcached),
];

/// A policy file, and a rule by itself.
pub fn policy(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        api::fuzz::policy(text);
    }
}

/// The body of a PATCH.
pub fn patch(data: &[u8]) {
    api::fuzz::patch(data);
}

/// A query string, and a path.
pub fn query(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        api::fuzz::query(text);
    }
}

/// A certificate request.
pub fn csr(data: &[u8]) {
    model::fuzz::csr(data);
}

/// What a certificate request is made of.
pub fn signing(data: &[u8]) {
    model::fuzz::signing(data);
}

/// A message that RabbitMQ hands on.
pub fn message(data: &[u8]) {
    model::fuzz::message(data);
}

/// What answers instead of memcached.
pub fn memcached(data: &[u8]) {
    api::fuzz::memcached(data);
}

/// `magnum.conf`.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A host by name keeps the reader from asking the system for ours.
    if let Ok(config) = server::config::Config::parse_for_test(&format!("{text}\n[DEFAULT]\nhost = fuzz\n")) {
        let printed = format!("{config:?}");
        // Names of sections, in small letters, and of keys are printed, and so is what another option takes from a secret one by substitution.
        let is_value = |line: &str| {
            !line.to_lowercase().contains(SECRET) || line.strip_prefix("password = ").is_some_and(|value| value.trim() == SECRET)
        };
        let is_secret = !text.contains('$') && text.lines().all(is_value);
        assert!(!is_secret || !printed.contains(SECRET), "a secret is printed");
    }
}

/// Stands for passwords in the corpus.
const SECRET: &str = "hunter-two";
