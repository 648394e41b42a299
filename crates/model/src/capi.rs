//! Names of what a Cluster API cluster is made of: pure functions, the same as upstream's driver computes, so that either finds what the
//! other made.
//!
//! Known to the API as well, which refuses early what could never be found again.

/// Characters of the cluster's name in a release's name at most.
const NAME: usize = 30;
/// Random characters that end a release's name: 60 bits in base32.
const SUFFIX: usize = 12;
/// Characters of a name in Kubernetes that is also the value of a label.
const LONGEST: usize = 63;
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Lower case, every run of other characters than a-z and 0-9 one dash, none at the ends.
pub fn cleaned(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.to_lowercase().chars() {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('-') {
            out.push('-');
        }
    }
    out.trim_matches('-').to_owned()
}

/// The namespace of a project on the management cluster. It is never deleted: other clusters of the project are in it.
pub fn namespace(prefix: &str, project_id: &str) -> String {
    let id: String = project_id.to_lowercase().chars().filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit()).collect();
    format!("{prefix}-{id}")
}

/// A new name of a release, which is the Cluster's too and becomes the `stack_id` of the row. Never to be computed a second time for the
/// same cluster: its end is random, so that two clusters of one name never share anything in the cloud.
///
/// Unlike upstream's, a name whose thirtieth character becomes a dash does not end in two dashes, which nothing would be found under.
pub fn new_release(cluster_name: &str) -> String {
    let mut name: String = cleaned(cluster_name).chars().take(NAME).collect();
    name.truncate(name.trim_end_matches('-').len());
    let suffix: String = (0..SUFFIX).map(|_| char::from(BASE32[crate::random::range(0..BASE32.len())])).collect();
    format!("{name}-{suffix}")
}

/// The name of something that belongs to a release.
pub fn derived(release: &str, part: &str) -> String {
    cleaned(&format!("{release}-{part}"))
}

/// The prefix of the names of all application credentials that are a cluster's.
pub fn credential_prefix(cluster_uuid: &str) -> String {
    format!("magnum-{cluster_uuid}-")
}

/// A new name of an application credential: the prefix and eight random hexadecimal digits.
pub fn new_credential(cluster_uuid: &str) -> String {
    format!("{}{:08x}", credential_prefix(cluster_uuid), crate::random::range(0..=u32::MAX))
}

/// Whether a worker group of this name can be in a release beside others.
///
/// # Errors
/// The rule that the name breaks.
pub fn check_group<'a>(name: &str, release: Option<&str>, others: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let clean = cleaned(name);
    let is_fit = clean.len() >= 3 && clean.starts_with(|c: char| c.is_ascii_lowercase());
    if !is_fit {
        return Err("It must begin with a letter and have three letters or digits at least".to_owned());
    }
    if clean == "control-plane" {
        return Err("It must not be that of the control plane".to_owned());
    }
    if let Some(release) = release {
        let longest = LONGEST.saturating_sub(release.len() + 1);
        if clean.len() > longest {
            return Err(format!("It must have {longest} characters at most: those of its machines' names are limited"));
        }
    }
    let mut others = others;
    match others.find(|other| cleaned(other) == clean) {
        Some(other) => Err(format!("It must differ from that of the nodegroup {other} in letters and digits")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_upstreams() {
        assert_eq!(namespace("magnum", "0123456789ABCDEF-0123"), "magnum-0123456789abcdef0123");
        for (name, clean) in
            [("My Cluster_1", "my-cluster-1"), ("--a..b--", "a-b"), ("Über", "ber"), ("a--b", "a-b"), ("kube", "kube"), ("___", "")]
        {
            assert_eq!(cleaned(name), clean, "{name}");
        }
        assert_eq!(derived("my-cluster-1-pwh4u2hzpwnw", "cloud-credentials"), "my-cluster-1-pwh4u2hzpwnw-cloud-credentials");
        assert_eq!(derived("r-x", "Big GPU"), "r-x-big-gpu");
    }

    #[test]
    fn a_release_ends_in_twelve_random_characters_and_has_no_two_dashes_in_a_row() {
        let release = new_release("My Cluster_1");
        let suffix = release.strip_prefix("my-cluster-1-").expect("the name first");
        assert!(suffix.len() == SUFFIX && suffix.bytes().all(|b| BASE32.contains(&b)), "{release}");
        assert_ne!(release, new_release("My Cluster_1"));
        // The thirtieth character becomes a dash.
        let long = new_release("abcdefghijklmnopqrstuvwxyz123_more");
        assert!(long.starts_with("abcdefghijklmnopqrstuvwxyz123-") && !long.contains("--"), "{long}");
        assert_eq!(cleaned(&long), long);
    }

    #[test]
    fn a_credential_is_known_by_its_prefix() {
        let name = new_credential("u");
        assert!(name.len() == "magnum-u-".len() + 8 && name.starts_with(&credential_prefix("u")), "{name}");
    }

    #[test]
    fn groups_that_would_share_a_name_or_have_none_are_refused() {
        let release = "blue-abcdefghijkl";
        let check = |name: &str| check_group(name, Some(release), ["default-worker", "gpu_1"].into_iter());
        assert_eq!(check("big"), Ok(()));
        for name in ["ab", "1st", "GPU-1", "default.worker", "control_plane", "x".repeat(46).as_str(), "___"] {
            assert!(check(name).is_err_and(|rule| rule.starts_with("It must")), "{name}");
        }
        assert_eq!(check(&"x".repeat(45)), Ok(()));
        assert_eq!(check_group(&"x".repeat(70), None, [].into_iter()), Ok(()));
    }
}
