//! Options of a program, as a label holds them: `--name=value --other`.

/// One option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Without dashes.
    pub name: String,
    pub value: String,
}

/// Reads what a label holds: options separated by spaces, each `--name=value`, `--name value` or `--name`, which is true. `own` are the names
/// that the cluster sets itself.
///
/// # Errors
/// The rule that the text breaks.
pub fn read(text: &str, own: &[&str]) -> Result<Vec<Argument>, String> {
    const RULE: &str = "It must be options such as --v=2 --profiling=false, separated by spaces and without quotes";
    let mut found: Vec<Argument> = Vec::new();
    // Whether the last one may have its value in the next word.
    let mut is_open = false;
    for word in text.split_whitespace() {
        if !word.chars().all(|c| c.is_ascii_graphic() && !"'\"\\@".contains(c)) {
            return Err(RULE.into());
        }
        let Some(option) = word.strip_prefix('-').map(|rest| rest.trim_start_matches('-')) else {
            match found.last_mut().filter(|_| is_open) {
                Some(last) => word.clone_into(&mut last.value),
                None => return Err(RULE.into()),
            }
            is_open = false;
            continue;
        };
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        // Kubernetes' programs take either.
        let name = name.replace('_', "-");
        let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !is_name {
            return Err(RULE.into());
        }
        if own.contains(&name.as_str()) {
            return Err(format!("It must not hold --{name}, which the cluster sets itself"));
        }
        is_open = value.is_none();
        found.push(Argument { name, value: value.unwrap_or("true").to_owned() });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
        read(text, &["node-ip"]).map(|all| all.into_iter().map(|one| (one.name, one.value)).collect())
    }

    #[test]
    fn options_are_read_as_users_write_them() {
        let want = [
            ("v", "2"),
            ("feature-gates", "A=true,B=false"),
            ("profiling", "true"),
            ("max-pods", "50"),
            ("log-dir", "/var/log"),
            ("empty", ""),
        ];
        let want: Vec<_> = want.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(pairs(" -v=2  --feature-gates=A=true,B=false --profiling --max-pods 50 --log_dir=/var/log --empty="), Ok(want));
        assert_eq!(pairs(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_option_is_refused_and_so_is_what_the_cluster_sets() {
        for text in ["v=2", "--a b c", "--=x", "--a='b c'", "--a=\"b\"", "--a=b\\", "--ä=1", "--_a=1", "--a=@NODE_NAME@", "- b"] {
            assert!(pairs(text).is_err_and(|rule| rule.starts_with("It must be options")), "{text}");
        }
        for text in ["--v=2 --node-ip=1.2.3.4", "--node_ip 1.2.3.4"] {
            assert_eq!(pairs(text), Err("It must not hold --node-ip, which the cluster sets itself".into()), "{text}");
        }
    }
}
