//! Reads the text of one configuration file by the rules of oslo.config.
//!
//! The ready-made INI readers lose what operators rely on: repeated keys, continuation lines, `:` as separator and values
//! in quotes. An error names the line and the rule, never the content of the line: it may hold a password.

/// One assignment, in the order of the file.
pub(super) struct Assignment {
    pub section: String,
    pub key: String,
    pub value: String,
    pub line: usize,
}

/// A line that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub line: usize,
    pub rule: &'static str,
}

/// How oslo.config compares section names: `DEFAULT` exactly, all others in lower case.
pub(super) fn section_name(name: &str) -> String {
    if name == "DEFAULT" { name.to_owned() } else { name.to_lowercase() }
}

/// Splits the text into assignments.
pub(super) fn parse(text: &str) -> Result<Vec<Assignment>, SyntaxError> {
    let mut assignments: Vec<Assignment> = Vec::new();
    let mut section: Option<String> = None;
    // Whether the last assignment may still be continued: a blank line, a comment or a section ends it.
    let mut open = false;
    for (index, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let number = index + 1;
        let fail = |rule| SyntaxError { line: number, rule };
        let line = line.trim_end();
        if line.is_empty() {
            open = false;
        } else if line.starts_with([' ', '\t']) {
            match assignments.last_mut() {
                Some(last) if open => {
                    last.value.push('\n');
                    last.value.push_str(line.trim_start());
                }
                _ => return Err(fail("a continuation line must follow an assignment")),
            }
        } else if let Some(rest) = line.strip_prefix('[') {
            open = false;
            let name = rest.strip_suffix(']').ok_or_else(|| fail("a section must end with ]"))?;
            if name.is_empty() {
                return Err(fail("a section must have a name"));
            }
            section = Some(section_name(name));
        } else if line.starts_with(['#', ';']) {
            open = false;
        } else {
            let (key, value) = line.split_once(['=', ':']).ok_or_else(|| fail("an assignment must contain = or :"))?;
            let key = key.trim();
            if key.is_empty() {
                return Err(fail("an assignment must have a key"));
            }
            let section = section.clone().ok_or_else(|| fail("an assignment must stand in a section"))?;
            assignments.push(Assignment { section, key: key.to_owned(), value: unquote(value.trim()).to_owned(), line: number });
            open = true;
        }
    }
    Ok(assignments)
}

/// Takes one pair of equal quotes away.
fn unquote(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String, String)> {
        parse(text).expect("valid text").into_iter().map(|a| (a.section, a.key, a.value)).collect()
    }

    #[test]
    fn assignments_are_read_as_oslo_reads_them() {
        for (text, wanted) in [
            ("[s]\na=1", ("s", "a", "1")),
            ("[S]\na=1", ("s", "a", "1")),
            ("[DEFAULT]\na=1", ("DEFAULT", "a", "1")),
            ("[Default]\na=1", ("default", "a", "1")),
            ("[s]\na: x=1", ("s", "a", "x=1")),
            ("[s]\na = x:1", ("s", "a", "x:1")),
            ("[s]\na='q r'", ("s", "a", "q r")),
            ("[s]\na=\"q'", ("s", "a", "\"q'")),
            ("[s]\na=x # no comment", ("s", "a", "x # no comment")),
            ("[s]\na=one\n two\n\tthree", ("s", "a", "one\ntwo\nthree")),
            ("[s]\na=", ("s", "a", "")),
            ("# c\n; d\n\n[s]\r\nA = 1\r\n", ("s", "A", "1")),
        ] {
            let wanted = (wanted.0.to_owned(), wanted.1.to_owned(), wanted.2.to_owned());
            assert_eq!(read(text), [wanted], "{text:?}");
        }
    }

    #[test]
    fn repeated_keys_are_all_kept_in_order() {
        let values: Vec<_> = read("[s]\nm=1\n[t]\nx=0\n[s]\nm=2").into_iter().map(|(_, _, v)| v).collect();
        assert_eq!(values, ["1", "0", "2"]);
    }

    #[test]
    fn broken_lines_are_named_with_their_rule() {
        for (text, line, rule) in [
            ("a=1", 1, "an assignment must stand in a section"),
            ("[s]\n[s", 2, "a section must end with ]"),
            ("[]", 1, "a section must have a name"),
            ("[s]\n x", 2, "a continuation line must follow an assignment"),
            ("[s]\na=1\n# c\n x", 4, "a continuation line must follow an assignment"),
            ("[s]\n\nfoo", 3, "an assignment must contain = or :"),
            ("[s]\n=3", 2, "an assignment must have a key"),
        ] {
            assert_eq!(parse(text).err(), Some(SyntaxError { line, rule }), "{text:?}");
        }
    }
}
