//! `docs/configuration.md`, made from the declarations that the programs read by and from the tables of what they ignore.

use std::fmt::Write;

use super::known::{INERT, KNOWN, is_inert};
use super::sections;

const HEADER: &str = "\
# Configuration

`magnum.conf` is upstream's, read by oslo.config's rules: several `--config-file` and `--config-dir` (later ones win), `$name` and
`${section.name}`, repeated keys, and `OS_<SECTION>__<OPTION>` in the environment above all files. A value that does not fit its type ends the start,
with section, key, place and rule; an option that nobody knows is named once in the log and does no harm. `magnum-status upgrade check` tells
what is wrong before a start. `deploy/magnum.conf.sample` has everything below in the form of a file.

Secrets are never printed. This page is generated from the program; a test compares the two.

## Options that count
";

const IGNORED: &str = "
## Options of upstream that are accepted and ignored

On purpose; the log names those that a file sets. `*` stands for any ending of a name. Those in the second table are checked, for a wrong value
would be wrong for upstream as well, and named where a file sets another value than upstream's default.

| section | options | why |
|---|---|---|
";

const CHECKED: &str = "
| section | checked only | why |
|---|---|---|
";

/// The text of the page.
pub fn document() -> String {
    let mut text = HEADER.to_owned();
    let mut heading = "";
    for (section, about, options) in sections() {
        // A section may fill two structs; the second one continues the first.
        if heading != *section && !text.contains(&format!("\n### [{section}]\n")) {
            heading = section;
            write!(text, "\n### [{section}]\n\n{}\n\n| option | default | meaning |\n|---|---|---|\n", words(about)).expect(INFALLIBLE);
        }
        for option in options.iter().filter(|option| !is_inert(section, option.name)) {
            let default = match option.default {
                None => "unset".to_owned(),
                Some("") => "empty".to_owned(),
                Some(value) => format!("`{}`", value.replace('|', "\\|")),
            };
            writeln!(text, "| {} | {default} | {} |", option.name, words(option.help)).expect(INFALLIBLE);
        }
    }
    text.push_str(IGNORED);
    rows(&mut text, KNOWN);
    text.push_str(CHECKED);
    rows(&mut text, INERT);
    text
}

const INFALLIBLE: &str = "writing to a string cannot fail";

fn rows(text: &mut String, table: &[(&str, &str, &str)]) {
    for (section, names, why) in table {
        let names = names.split_whitespace().map(|name| name.replace('*', "\\*")).collect::<Vec<_>>().join(", ");
        writeln!(text, "| [{section}] | {names} | {why} |").expect(INFALLIBLE);
    }
}

fn words(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::options;

    #[test]
    fn the_page_in_docs_is_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        if std::env::var_os("UPDATE_SAMPLE").is_some() {
            std::fs::write(path, document()).expect("write the page");
        }
        let file = std::fs::read_to_string(path).expect("read the page");
        assert!(file == document(), "docs/configuration.md is out of date: run this test with UPDATE_SAMPLE=1");
    }

    #[test]
    fn what_is_called_without_effect_is_declared_and_what_counts_is_read_somewhere() {
        for (section, names, _) in INERT {
            for name in names.split_whitespace() {
                assert!(options::is_honoured(section, name), "[{section}] {name} is not declared");
            }
        }
        let mut sources = String::new();
        gather(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut sources);
        let is_read = |name: &str| {
            sources
                .match_indices(&format!(".{name}"))
                .any(|(at, found)| !sources[at + found.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
        };
        for (section, _, options) in sections() {
            for option in *options {
                assert_eq!(is_read(option.name), !is_inert(section, option.name), "[{section}] {}", option.name);
            }
        }
    }

    /// The code that options could be read in: all but their declarations and tests.
    fn gather(folder: &Path, sources: &mut String) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                gather(&path, sources);
            } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs") {
                sources.push_str(&std::fs::read_to_string(&path).expect("a source"));
            }
        }
    }
}
