//! What helm's words mean: it ends with status 1 whatever went wrong.

use super::SERVICE;
use crate::error::{CloudError, Sent};

/// Parts of helm's words by which a failure is one of the moment: of the way to the API server or the charts, or a change that another
/// overtook.
const PASSING: [&str; 26] = [
    "cluster unreachable",
    "connection refused",
    "connection reset",
    "i/o timeout",
    "connection timed out",
    "connection lost",
    "tls handshake timeout",
    "no such host",
    "no route to host",
    "network is unreachable",
    "server misbehaving",
    "temporary failure in name resolution",
    "context deadline exceeded",
    "unexpected eof",
    ": eof",
    "server was unable to return a response",
    "server is currently unable to handle the request",
    "too many requests",
    "service unavailable",
    "internal server error",
    "bad gateway",
    "gateway timeout",
    "internal error occurred",
    "object has been modified",
    "http2:",
    "etcdserver",
];

/// Parts of why a release could not be deleted by which it never will be as things are. No name has a blank in it.
const LASTING: [&str; 3] = ["is forbidden", "no matches for kind", "corrupted release record"];

/// All that helm says where it could not delete some object of a release.
const UNDELETED: &str = "failed to delete release:";
/// Where it tells why, in its debugging output.
const WHY_UNDELETED: &str = "uninstall: Failed to delete release";

/// How Go says that it found no address of a name; the name comes next, then often the address of who was asked.
const LOOKUP: &str = "dial tcp: lookup ";
/// What is said instead.
const UNRESOLVED: &str = "the name of a server that it needs cannot be resolved";

/// Whether helm 4 was refused a size that another manager of fields has set. helm 3 overwrites it.
pub(super) fn is_contest(words: &str) -> bool {
    let lower = words.to_lowercase();
    lower.contains("conflict") && lower.contains("apply failed with") && lower.contains(".spec.replicas")
}

/// What a failure is about which was told so.
pub(super) fn failure(operation: &'static str, said: &str) -> CloudError {
    let why = why_undeleted(said);
    let told = words(said);
    let words = why.as_ref().map_or_else(|| told.clone(), |why| format!("{told}: {why}"));
    let lower = words.to_lowercase();
    if lower.contains("another operation (install/upgrade/rollback) is in progress") {
        return CloudError::refused(SERVICE, operation, 409, None, &words);
    }
    if lower.contains("release: not found") {
        return CloudError::refused(SERVICE, operation, 404, None, &words);
    }
    // helm's words go to tenants, and where this machine asks for names is none of theirs.
    if lower.contains(LOOKUP) {
        tracing::warn!(operation, words, "helm cannot resolve a name");
        return CloudError::unreachable(SERVICE, operation, Sent::Perhaps, UNRESOLVED);
    }
    let is_passing = PASSING.iter().any(|part| lower.contains(part));
    // Of some object of the release. What is not known to last may be a lost answer, and often is.
    let is_untold = told.to_lowercase().contains(UNDELETED) && !why.is_some_and(|why| is_lasting(&why));
    // Neither is a status that helm has: they make the error answer as one of a service would.
    if is_passing || is_untold {
        return CloudError::unreachable(SERVICE, operation, Sent::Perhaps, &words);
    }
    CloudError::refused(SERVICE, operation, 424, None, &words)
}

fn is_lasting(why: &str) -> bool {
    let lower = why.to_lowercase();
    LASTING.iter().any(|part| lower.contains(part))
}

/// The line that says what is wrong, without warnings before it and debugging output around it.
pub(super) fn words(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = lines.iter().position(|line| line.starts_with("Error:") || line.contains("level=ERROR"));
    let told: Vec<&str> = match from {
        // helm 3 tells the same once more then, and where in its code.
        Some(from) => lines[from..].iter().copied().take_while(|line| !is_debugging(line)).collect(),
        None => lines.iter().copied().filter(|line| !is_debugging(line)).collect(),
    };
    let text = told.join(" ");
    let text = text.strip_prefix("Error: ").unwrap_or(&text);
    if text.is_empty() { "it failed without a word".to_owned() } else { text.to_owned() }
}

/// Whether a line is one that `--debug` adds: of helm 3, of helm 4.
fn is_debugging(line: &str) -> bool {
    !line.starts_with("Error:") && (line.contains("[debug]") || line.contains("level=DEBUG"))
}

/// Why a release could not be deleted: nothing else of the debugging output is taken, for what is in it is for operators.
fn why_undeleted(said: &str) -> Option<String> {
    let (_, rest) = said.split_once(WHY_UNDELETED)?;
    let told = match rest.strip_prefix('"') {
        // helm 4 writes as Go's slog does: all on one line, in quotes.
        Some(rest) => unquoted(rest.lines().next()?.split_once("error=")?.1),
        // helm 3 writes it as it is, on as many lines as it has.
        None => rest.lines().take_while(|line| !line.starts_with("Error:") && !is_debugging(line)).collect::<Vec<_>>().join(" "),
    };
    let told = told.trim_start_matches(':').trim();
    // A list of errors.
    let told = told.strip_prefix('[').and_then(|told| told.strip_suffix(']')).unwrap_or(told);
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    (!told.is_empty()).then_some(told)
}

/// What Go has quoted; what it has not ends with the word.
fn unquoted(text: &str) -> String {
    let Some(quoted) = text.strip_prefix('"') else { return text.split(' ').next().unwrap_or_default().to_owned() };
    let (mut plain, mut letters) = (String::new(), quoted.chars());
    while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
        match letter {
            '\\' => match letters.next() {
                Some('n' | 'r' | 't') => plain.push(' '),
                Some(escaped) => plain.push(escaped),
                None => break,
            },
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart_by_helms_words() {
        let of = |said: &str| failure("upgrade", said);
        let busy = of("Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress\n");
        assert!(busy.is_conflict(), "{busy}");
        assert!(of("Error: uninstall: Release not loaded: x: release: not found").is_not_found());
        for said in [
            "Error: Kubernetes cluster unreachable: Get \"http://127.0.0.1:1/version\": dial tcp 127.0.0.1:1: connect: connection refused",
            "Error: looks like \"http://h\" is not a valid chart repository or cannot be reached: Get \"http://h/index.yaml\": EOF",
            "Error: looks like \"http://h\" is not a valid chart repository or cannot be reached: failed to fetch http://h/index.yaml : 502 Bad Gateway",
            "Error: failed to fetch https://h/c-0.27.0.tgz : 500 Internal Server Error",
            "Error: Get \"https://h/index.yaml\": dial tcp: lookup h on 192.0.2.1:53: server misbehaving",
            "Error: failed to do request: Head \"https://h/v2/c/manifests/1\": dial tcp 192.0.2.1:443: connect: no route to host",
            "Error: failed to delete release: blue-pwh4u2hzpwnw",
        ] {
            assert!(of(said).retry_may_help(), "{said}");
        }
        let unresolved = of("Error: Get \"https://h/index.yaml\": dial tcp: lookup h on 192.0.2.1:53: no such host");
        assert!(unresolved.retry_may_help() && unresolved.message() == UNRESOLVED, "{unresolved}");
        let warned = of("WARNING: x\nlevel=WARN msg=y\nError: chart \"c\" version \"9\" not found in http://h repository\n");
        assert!(!warned.retry_may_help() && warned.message().starts_with("chart \"c\" version"), "{warned}");
        assert_eq!(of("").message(), "it failed without a word");
    }

    /// What 3.17.3 says of a failure for this reason.
    fn of_three(name: &str, why: &str) -> String {
        format!(
            "uninstall.go:102: 2026-11-26 09:15:29.512439401 +0000 UTC m=+0.316597927 [debug] uninstall: Deleting {name}\n\
             client.go:486: 2026-11-26 09:15:29.689175519 +0000 UTC m=+0.493334045 [debug] Starting delete for \"cm-a\" ConfigMap\n\
             uninstall.go:124: 2026-11-26 09:15:29.776654706 +0000 UTC m=+0.580813232 [debug] uninstall: Failed to delete release: [{why}]\n\
             Error: failed to delete release: {name}\n\
             helm.go:86: 2026-11-26 09:15:29.776730278 +0000 UTC m=+0.580888804 [debug] failed to delete release: {name}\n\
             helm.sh/helm/v3/pkg/action.(*Uninstall).Run\n\
             \thelm.sh/helm/v3/pkg/action/uninstall.go:125\n"
        )
    }

    /// What 4.1.4 says of it.
    fn of_four(name: &str, why: &str) -> String {
        let quoted = why.replace('"', "\\\"").replace('\n', "\\n");
        format!(
            "level=DEBUG msg=\"uninstall: deleting release\" name={name}\n\
             level=DEBUG msg=\"starting delete resource\" namespace=n name=cm-a kind=ConfigMap\n\
             level=DEBUG msg=\"uninstall: Failed to delete release\" error=\"[{quoted}]\"\n\
             Error: failed to delete release: {name}\n"
        )
    }

    #[test]
    fn why_a_release_cannot_be_deleted_is_told_and_says_whether_it_lasts() {
        for (why, may_help) in [
            ("configmaps \"cm-a\" is forbidden: User \"magnum\" cannot delete resource \"configmaps\" in the namespace \"n\"", false),
            (
                "unable to build kubernetes objects for delete: resource mapping not found for name: \"b\" namespace: \"\" from \"\": \
                 no matches for kind \"Bar\" in version \"foo.example/v1\"\nensure CRDs are installed first",
                false,
            ),
            ("corrupted release record. You must manually delete the resources: YAML parse error on manifest-2", false),
            ("Delete \"http://127.0.0.1:36895/api/v1/namespaces/n/configmaps/cm-a\": EOF", true),
            ("Internal error occurred: etcdserver: leader changed", true),
            ("configmaps \"a\" is forbidden: no etcdserver, Internal error occurred: etcdserver: leader changed", true),
            ("admission webhook \"validation.x\" denied the request: not now", true),
        ] {
            for said in [of_three("r", why), of_four("r", why)] {
                let error = failure("uninstall", &said);
                assert_eq!(error.message(), format!("failed to delete release: r: {}", why.replace('\n', " ")), "{said}");
                assert_eq!(error.retry_may_help(), may_help, "{said}");
            }
        }
        // A name is no reason.
        for said in [of_three("is-forbidden", "x"), of_four("is-forbidden", "x"), of_four("corrupted-release-record", "x")] {
            assert!(failure("uninstall", &said).retry_may_help(), "{said}");
        }
        let unresolved = failure("uninstall", &of_four("r", "Delete \"https://h/api\": dial tcp: lookup h on 192.0.2.1:53: no such host"));
        assert_eq!(unresolved.message(), UNRESOLVED);
        // What needs no quotes has none.
        assert_eq!(why_undeleted("level=DEBUG msg=\"uninstall: Failed to delete release\" error=[x] a=b\n").as_deref(), Some("x"));
        assert_eq!(why_undeleted("level=DEBUG msg=\"uninstall: Failed to delete release\"\nerror=y\n"), None);
    }

    #[test]
    fn debugging_output_is_not_repeated() {
        let three = "uninstall.go:102: [debug] uninstall: Deleting r\nclient.go:1: [debug] hunter2\nError: uninstall: Release not loaded: r: \
                     release: not found\nhelm.go:86: [debug] release: not found\nhelm.sh/helm/v3/x\n\thelm.sh/x.go:1\n";
        let four = "level=DEBUG msg=hunter2\nError: uninstall: Release not loaded: r: release: not found\n";
        for said in [three, four] {
            let error = failure("uninstall", said);
            assert!(error.is_not_found(), "{error}");
            assert_eq!(error.message(), "uninstall: Release not loaded: r: release: not found");
        }
        assert_eq!(failure("uninstall", "level=DEBUG msg=hunter2\nx.go:1: [debug] hunter2\n").message(), "it failed without a word");
    }
}
