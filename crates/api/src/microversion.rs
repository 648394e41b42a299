//! The microversion of a request, and the headers that say which one was served.

use std::fmt;

/// The service word of answers: fixed, whatever alias the client used.
pub const SERVICE_WORD: &str = "container-infrastructure-management";
/// The words that a request may use.
const ACCEPTED_WORDS: [&str; 3] = ["container-infra", "container-infrastructure", SERVICE_WORD];
/// The request's and the answer's header.
pub const HEADER: &str = "OpenStack-API-Version";
/// The lowest version, and the one of a request that names none.
pub const MIN: Microversion = Microversion(1);
/// The highest version.
pub const MAX: Microversion = Microversion(14);
/// From here on clusters can be resized.
pub const RESIZE: Microversion = Microversion(7);
/// From here on clusters can be upgraded.
pub const UPGRADE: Microversion = Microversion(8);
/// From here on there are nodegroups.
pub const NODEGROUPS: Microversion = Microversion(9);
/// From here on credentials can be rotated.
pub const CREDENTIALS: Microversion = Microversion(12);
/// From here on a patch of a cluster may ask for a rollback.
pub const ROLLBACK: Microversion = Microversion(3);
/// From here on node counts of zero are allowed, and an unknown template of a new cluster is a 404.
pub const ZERO_NODES: Microversion = Microversion(10);
/// From here on clusters show `cluster_id` in the place of `stack_id`.
pub const CLUSTER_ID: Microversion = Microversion(13);

/// A served version: the minor number, the major one is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Microversion(u32);

impl Microversion {
    /// Every served version, the lowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (MIN.0..=MAX.0).map(Self)
    }

    /// The version before; the lowest stays.
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1)).max(MIN)
    }
}

impl fmt::Display for Microversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// Why a version header cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not two words, another service, or no version number.
    #[error("Invalid service type or version for {HEADER} header: '{0}'")]
    Malformed(String),
    /// A version outside the range.
    #[error("{description}")]
    OutOfRange { requested: String, description: String },
}

/// The version that a header asks for.
pub fn parse(header: Option<&str>) -> Result<Microversion, Refused> {
    let Some(header) = header else { return Ok(MIN) };
    let malformed = || Refused::Malformed(header.chars().take(100).collect());
    let mut words = header.split_whitespace();
    let (Some(word), Some(version), None) = (words.next(), words.next(), words.next()) else { return Err(malformed()) };
    // With "latest" the service word is not looked at (upstream's rule).
    if version.eq_ignore_ascii_case("latest") {
        return Ok(MAX);
    }
    if !ACCEPTED_WORDS.contains(&word) {
        return Err(malformed());
    }
    let (major, minor) = version.split_once('.').and_then(|(a, b)| Some((number(a)?, number(b)?))).ok_or_else(malformed)?;
    let range = format!("[{SERVICE_WORD} {MIN}, {SERVICE_WORD} {MAX}]");
    let requested = format!("{major}.{minor}");
    if major != 1 {
        let description = format!(
            "Mutually exclusive versions requested. Version {requested} requested but not supported by this service. \
             The supported version range is: {range}."
        );
        return Err(Refused::OutOfRange { requested, description });
    }
    if !(MIN.0..=MAX.0).contains(&minor) {
        let description = format!(
            "Version {requested} was requested but the minor version is not supported by this service. \
             The supported version range is: {range}."
        );
        return Err(Refused::OutOfRange { requested, description });
    }
    Ok(Microversion(minor))
}

fn number(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_upstream_reads_them() {
        for (header, minor) in [
            (None, 1),
            (Some("container-infra 1.4"), 4),
            (Some("container-infrastructure-management\t 1.14"), 14),
            (Some("container-infra 1.04"), 4),
            (Some("container-infra LATEST"), 14),
            (Some("compute latest"), 14),
        ] {
            assert_eq!(parse(header), Ok(Microversion(minor)), "{header:?}");
        }
        for header in [
            "",
            "1.4",
            "container-infra 1.4 x",
            "compute 1.4",
            "Container-Infra 1.4",
            "container-infra 1",
            "container-infra 1.2.3",
            "container-infra abc",
            // A list of services is none that upstream reads.
            "container-infra 1.4, compute 2.1",
            "compute 2.1,container-infra 1.4",
            "container-infra 1.4,container-infra 1.4",
            // What stands for bytes that are no text.
            "container-infra\u{fffd} 1.4",
            "container-infra 1.4\u{fffd}",
            "\u{fffd}",
        ] {
            assert!(matches!(parse(Some(header)), Err(Refused::Malformed(_))), "{header}");
        }
        for (header, requested) in [("container-infra 1.0", "1.0"), ("container-infra 1.15", "1.15"), ("container-infra 9.9", "9.9")] {
            assert!(matches!(parse(Some(header)), Err(Refused::OutOfRange { requested: r, .. }) if r == requested), "{header}");
        }
    }
}
