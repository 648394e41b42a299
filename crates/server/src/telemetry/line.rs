//! One log line from its parts, pure. What comes from outside cannot start a second line: control characters are escaped.

use std::fmt::Write;

use serde_json::json;
use tracing::Level;

use super::fields::Said;

/// The caller of a request, as far as a span knows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Caller {
    pub global_request_id: Option<String>,
    pub request_id: Option<String>,
    pub user: Option<String>,
    pub project: Option<String>,
}

/// The parts of a line.
pub(super) struct Line<'a> {
    /// Local time, `YYYY-MM-DD HH:MM:SS.mmm`.
    pub time: &'a str,
    pub process: u32,
    pub level: Level,
    pub target: &'a str,
    pub caller: &'a Caller,
    pub message: &'a str,
    pub fields: &'a [(&'static str, Said)],
}

impl Line<'_> {
    /// As oslo.log's default formats, the fields after the message.
    pub fn text(&self) -> String {
        let mut line = format!("{} {} {} {} [", self.time, self.process, level_name(self.level), self.target);
        let caller = self.caller;
        if caller.request_id.is_some() {
            // A value that is missing is None for the first, a dash for the others, as in oslo.log.
            line.push_str(&word(caller.global_request_id.as_deref(), "None"));
            for value in [&caller.request_id, &caller.user, &caller.project] {
                line.push(' ');
                line.push_str(&word(value.as_deref(), "-"));
            }
            line.push_str(" - - - -] ");
        } else {
            line.push_str("-] ");
        }
        escape_into(&mut line, self.message);
        for (key, value) in self.fields {
            line.push(' ');
            line.push_str(key);
            line.push('=');
            match value {
                Said::Text(text) if needs_quotes(text) => write!(line, "{text:?}"),
                other => write!(line, "{other}"),
            }
            .expect("writing to a string cannot fail");
        }
        line.push('\n');
        line
    }

    /// As oslo.log's JSON formatter, the keys that have a meaning here.
    pub fn json(&self) -> String {
        let caller = self.caller;
        let extra: serde_json::Map<_, _> = self.fields.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let mut line = json!({
            "asctime": self.time,
            "process": self.process,
            "levelname": level_name(self.level),
            "name": self.target,
            "message": self.message,
            "context": {
                "global_request_id": caller.global_request_id,
                "request_id": caller.request_id,
                "user_id": caller.user,
                "project_id": caller.project,
            },
            "extra": extra,
        })
        .to_string();
        line.push('\n');
        line
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "INFO",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    }
}

/// A value that must be one word.
fn word(value: Option<&str>, missing: &str) -> String {
    match value {
        None | Some("") => missing.to_owned(),
        Some(value) => value.chars().map(|c| if c.is_whitespace() || c.is_control() || c == ']' { '_' } else { c }).collect(),
    }
}

fn needs_quotes(text: &str) -> bool {
    text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '"' | '='))
}

fn escape_into(line: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_control() && c != '\t' {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn line<'a>(level: Level, caller: &'a Caller, message: &'a str, fields: &'a [(&'static str, Said)]) -> Line<'a> {
        Line { time: "2026-01-02 03:04:05.678", process: 42, level, target: "api::cluster", caller, message, fields }
    }

    #[test]
    fn lines_have_the_form_of_oslo_log() {
        let nobody = Caller::default();
        let somebody =
            Caller { global_request_id: None, request_id: Some("req-1".into()), user: Some("u".into()), project: Some("p".into()) };
        let unknown = Caller { global_request_id: Some("req-0".into()), request_id: Some("req-1 x]".into()), ..Caller::default() };
        for (level, caller, start) in [
            (Level::INFO, &nobody, "INFO api::cluster [-]"),
            (Level::WARN, &somebody, "WARNING api::cluster [None req-1 u p - - - -]"),
            (Level::ERROR, &unknown, "ERROR api::cluster [req-0 req-1_x_ - - - - - -]"),
            (Level::DEBUG, &nobody, "DEBUG api::cluster [-]"),
        ] {
            assert_eq!(line(level, caller, "Made it", &[]).text(), format!("2026-01-02 03:04:05.678 42 {start} Made it\n"));
        }
    }

    #[test]
    fn fields_follow_the_message_and_nothing_breaks_the_line() {
        let fields = [
            ("cluster.id", Said::from("abc")),
            ("duration_ms", Said::Number(12.into())),
            ("error", "two words\n2026 forged".into()),
            ("empty", "".into()),
        ];
        let nobody = Caller::default();
        assert_eq!(
            line(Level::INFO, &nobody, "one\ntwo", &fields).text(),
            "2026-01-02 03:04:05.678 42 INFO api::cluster [-] one\\ntwo cluster.id=abc duration_ms=12 \
             error=\"two words\\n2026 forged\" empty=\"\"\n"
        );
    }

    #[test]
    fn json_lines_carry_the_same() {
        let caller = Caller { request_id: Some("req-1".into()), ..Caller::default() };
        let fields = [("attempt", Said::Number(3.into()))];
        let text = line(Level::WARN, &caller, "one\ntwo", &fields).json();
        assert_eq!(text.lines().count(), 1);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["levelname"], "WARNING");
        assert_eq!(value["message"], "one\ntwo");
        assert_eq!(value["context"]["request_id"], "req-1");
        assert_eq!(value["context"]["user_id"], Value::Null);
        assert_eq!(value["extra"]["attempt"], 3);
    }
}
