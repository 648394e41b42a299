//! The name of this machine, found without asking the network: a start must not hang on a name server.

use std::path::Path;

/// The fully qualified name if `/etc/hosts` or the kernel knows it, else the plain one.
pub(super) fn fully_qualified_name() -> Option<String> {
    let name = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .into_iter()
        .filter_map(|path| std::fs::read_to_string(Path::new(path)).ok())
        .map(|text| text.trim().to_owned())
        .find(|name| !name.is_empty())?;
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    Some(qualify(&name, &hosts))
}

/// The first name with a dot on the first line of a hosts file that names this machine.
fn qualify(name: &str, hosts: &str) -> String {
    if name.contains('.') {
        return name.to_owned();
    }
    hosts
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>())
        .find(|names| names.contains(&name))
        .and_then(|names| names.into_iter().find(|name| name.contains('.')))
        .unwrap_or(name)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_comes_from_the_hosts_file() {
        let hosts = "127.0.0.1 localhost\n# 10.0.0.1 c.no c\n10.0.0.1 c.example.org c # c.no\n10.0.0.2 d\n";
        for (name, wanted) in [("c", "c.example.org"), ("c.other.org", "c.other.org"), ("d", "d"), ("e", "e")] {
            assert_eq!(qualify(name, hosts), wanted);
        }
    }
}
