//! Versions of Kubernetes, and which may follow which; what it takes for labels and taints of nodes.

use std::fmt;

/// How far kubelets may be behind the API server, in minor versions (Kubernetes' version skew policy).
const KUBELET_SKEW: u32 = 3;

/// A version of Kubernetes 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub minor: u32,
    pub patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v1.{}.{}", self.minor, self.patch)
    }
}

impl Version {
    /// Reads the label `kube_tag`, with or without `v`; hyperkube images of old carry a build number behind it, which is left out.
    pub fn parse(tag: &str) -> Option<Self> {
        let tag = tag.trim();
        let bare = tag.strip_prefix('v').unwrap_or(tag);
        let bare = bare.split_once("-rancher").map_or(bare, |(version, _)| version);
        let number = |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten();
        match bare.split('.').map(number).collect::<Option<Vec<u32>>>()?[..] {
            [1, minor, patch] => Some(Self { minor, patch }),
            _ => None,
        }
    }

    /// Whether a control plane of this version may be brought to another one: never back, and no minor version left out.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn may_become(self, wanted: Self) -> Result<(), String> {
        if wanted < self {
            return Err(format!("Kubernetes cannot go back from {self} to {wanted}"));
        }
        if wanted.minor > self.minor + 1 {
            return Err(format!("from {self} to {wanted} leaves out v1.{}; upgrade one minor version at a time", self.minor + 1));
        }
        Ok(())
    }

    /// Whether nodes of this version may stay beside a control plane of another one.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn may_serve(self, control_plane: Self) -> Result<(), String> {
        if self > control_plane && self.minor > control_plane.minor {
            return Err(format!("nodes of {self} are newer than a control plane of {control_plane}"));
        }
        if self.minor + KUBELET_SKEW < control_plane.minor {
            let rule = format!("nodes of {self} are more than {KUBELET_SKEW} minor versions behind a control plane of {control_plane}");
            return Err(rule);
        }
        Ok(())
    }
}

/// Longest part of a label's key, and longest value.
pub const LABEL_PART: usize = 63;
/// Longest prefix of a label's key.
const LABEL_PREFIX: usize = 253;

/// Whether a label's name or value may have this character, at its ends letters and digits alone.
pub fn is_inner(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Whether a node may have a label, or a taint, of this key and value: kubelet does not start with another one.
///
/// # Errors
/// The rule that it breaks.
pub fn check_label(key: &str, value: &str) -> Result<(), String> {
    let is_name = |text: &str| {
        let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        text.len() <= LABEL_PART && ends(text.chars().next()) && ends(text.chars().last()) && text.chars().all(is_inner)
    };
    let is_domain = |text: &str| {
        let part = |p: &str| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            p.starts_with(plain) && p.ends_with(plain) && p.chars().all(|c| plain(c) || c == '-')
        };
        text.len() <= LABEL_PREFIX && text.split('.').all(part)
    };
    let is_key = match key.split_once('/') {
        Some((prefix, name)) => is_domain(prefix) && is_name(name),
        None => is_name(key),
    };
    if !is_key {
        return Err(format!("{key:?} is no key that Kubernetes takes: [PREFIX/]NAME, each of letters, digits, - _ ."));
    }
    if !value.is_empty() && !is_name(value) {
        return Err(format!("{value:?} (of {key}) is no value that Kubernetes takes: at most {LABEL_PART} letters, digits, - _ ."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(tag: &str) -> Version {
        Version::parse(tag).expect(tag)
    }

    #[test]
    fn tags_are_read_as_users_write_them() {
        for (tag, want) in [("v1.34.1", "v1.34.1"), (" 1.32.0", "v1.32.0"), ("v1.33.5-rancher1", "v1.33.5")] {
            assert_eq!(v(tag).to_string(), want);
        }
        for tag in ["v1.33", "latest", "v2.0.0", "v1.33.5; reboot", "1.33.+5", "", "1.1.99999999999"] {
            assert_eq!(Version::parse(tag), None, "{tag}");
        }
    }

    #[test]
    fn a_control_plane_goes_forward_by_one_minor_version_at_most() {
        for (from, to, may) in [
            ("1.33.5", "1.33.5", true),
            ("1.33.5", "1.33.9", true),
            ("1.33.5", "1.34.0", true),
            ("1.33.5", "1.33.4", false),
            ("1.33.5", "1.32.9", false),
            ("1.33.5", "1.35.0", false),
        ] {
            assert_eq!(v(from).may_become(v(to)).is_ok(), may, "{from} {to}");
        }
    }

    #[test]
    fn kubelets_may_be_three_minor_versions_behind_and_never_ahead() {
        for (nodes, plane, may) in
            [("1.31.0", "1.34.9", true), ("1.30.9", "1.34.0", false), ("1.34.9", "1.34.0", true), ("1.35.0", "1.34.9", false)]
        {
            assert_eq!(v(nodes).may_serve(v(plane)).is_ok(), may, "{nodes} {plane}");
        }
    }
}
