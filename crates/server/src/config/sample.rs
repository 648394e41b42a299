//! The sample configuration, made from the declarations that the programs read by.

use std::fmt::Write;

use super::sections;

const HEADER: &str = "\
# Sample configuration: every option that is read and checked, with its default. docs/configuration.md names those that do nothing else,
# and the options of upstream that are accepted and ignored, with the reasons.
#
# The environment variable OS_<SECTION>__<OPTION> (in capitals) overrides an option, for instance OS_API__PORT.
# This file is generated; a test compares it with the program.
";

/// The text of `deploy/magnum.conf.sample`.
pub fn sample() -> String {
    let mut text = HEADER.to_owned();
    for (section, about, options) in sections() {
        // A section may fill two structs; the second one continues the first.
        let heading = format!("\n[{section}]\n");
        if !text.contains(&heading) {
            text.push_str(&heading);
            comment(&mut text, about);
        }
        for option in *options {
            text.push('\n');
            comment(&mut text, option.help);
            let value = option.default.map_or_else(|| "<unset>".to_owned(), |value| value.replace('$', "$$"));
            writeln!(text, "#{} = {value}", option.name).expect("writing to a string cannot fail");
        }
    }
    text
}

fn comment(text: &mut String, lines: &[&str]) {
    for line in lines {
        text.push_str(format!("#{line}").trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Finding};

    #[test]
    fn the_file_in_deploy_is_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/magnum.conf.sample");
        if std::env::var_os("UPDATE_SAMPLE").is_some() {
            std::fs::write(path, sample()).expect("write the sample");
        }
        let file = std::fs::read_to_string(path).expect("read the sample");
        assert!(file == sample(), "deploy/magnum.conf.sample is out of date: run this test with UPDATE_SAMPLE=1");
    }

    #[test]
    fn the_sample_is_parsed_as_it_is_and_with_every_default_written_out() {
        let file = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/magnum.conf.sample"));
        let plain = Config::parse_for_test(file).expect("the sample is valid");
        assert_eq!(plain.unknown, []);

        let written_out: String = file
            .lines()
            .filter(|line| !line.contains("<unset>"))
            .map(|line| match line.strip_prefix('#') {
                Some(option) if !option.starts_with(' ') && option.contains(" = ") => option,
                _ => line,
            })
            .fold(String::new(), |text, line| text + line + "\n");
        assert!(written_out.contains("\nport = 9511\n"));
        let config = Config::parse_for_test(&written_out).expect("the defaults are valid");
        let unknown: Vec<&Finding> = config.unknown.iter().collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let (mut one, mut other) = (plain, config);
        one.files.clear();
        other.files.clear();
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }
}
