//! The layer and the writer together.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use tracing::subscriber::with_default;
use tracing_subscriber::Registry;

use super::*;
use crate::config::Config;

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("lock").clone()).expect("UTF-8")
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs something under the layer and gives the lines without their time and process.
fn logged(json: bool, run: impl FnOnce()) -> Vec<String> {
    let memory = Memory::default();
    let writer = Writer::start(vec![Sink::of(memory.clone())], 64).expect("writer");
    let subscriber = Registry::default().with(OsloLayer::new(writer.handle(), json));
    with_default(subscriber, run);
    drop(writer);
    memory.text().lines().map(|line| if json { line.to_owned() } else { line.splitn(4, ' ').nth(3).expect("text").to_owned() }).collect()
}

#[test]
fn events_carry_the_caller_and_the_fields_of_their_spans() {
    let lines = logged(false, || {
        tracing::info!("Outside");
        let request =
            tracing::info_span!("request", request.id = "req-1", user.id = tracing::field::Empty, project.id = "p", http.method = "GET");
        let _request = request.enter();
        request.record("user.id", "u");
        let operation = tracing::info_span!("operation", operation.id = %"op", attempt = 1);
        let _operation = operation.enter();
        tracing::warn!(attempt = 2, cluster.id = "c", "Inside");
        tracing::error!(request.id = "req-2", "Nearer");
    });
    assert_eq!(
        lines,
        [
            "INFO server::telemetry::tests [-] Outside",
            "WARNING server::telemetry::tests [None req-1 u p - - - -] Inside attempt=2 cluster.id=c operation.id=op",
            "ERROR server::telemetry::tests [None req-2 u p - - - -] Nearer operation.id=op attempt=1",
        ]
    );
}

#[test]
fn json_is_one_object_for_each_line() {
    let lines = logged(true, || tracing::info!(count = 3, "Hello"));
    let value: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert_eq!((&value["message"], &value["extra"]["count"]), (&"Hello".into(), &3.into()));
}

#[test]
fn the_file_is_appended_to_and_complete_when_the_writer_is_dropped() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("magnum-api.log");
    std::fs::write(&path, "before\n").expect("write");
    let writer = Writer::start(vec![Sink::append_to(&path).expect("open")], 4096).expect("writer");
    let handle = writer.handle();
    for number in 0..1000 {
        handle.write(format!("line {number}\n"));
    }
    writer.flush();
    let text = std::fs::read_to_string(&path).expect("read");
    assert!(text.starts_with("before\nline 0\n") && text.ends_with("line 999\n"));
    handle.write("last\n".to_owned());
    drop(writer);
    assert!(std::fs::read_to_string(&path).expect("read").ends_with("last\n"));
}

/// Says when a write has begun and holds it until it is told to go on.
struct Gate {
    begun: Sender<()>,
    open: Receiver<()>,
    to: Memory,
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.send(()).map_err(io::Error::other)?;
        // An error means the gate is open for good.
        let _always_open = self.open.recv();
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stuck_sink_holds_nobody_up_and_lost_lines_are_counted() {
    let memory = Memory::default();
    let ((begun, has_begun), (open_gate, open)) = (channel(), channel());
    let gate = Gate { begun, open, to: memory.clone() };
    let writer = Writer::start(vec![Sink::of(gate)], 2).expect("writer");
    let handle = writer.handle();
    handle.write("first\n".to_owned());
    has_begun.recv().expect("the writer takes the first line");
    for number in 0..5 {
        handle.write(format!("{number}\n"));
    }
    drop(open_gate);
    writer.flush();
    let text = memory.text();
    assert!(text.starts_with("first\n0\n1\n"), "{text}");
    assert!(text.contains(" WARNING ") && text.trim_end().ends_with("count=3"), "{text}");
}

#[test]
fn the_log_file_is_named_after_the_program_unless_it_has_a_name() {
    for (text, wanted) in [
        ("", None),
        ("log_dir = /var/log", Some("/var/log/magnum-api.log")),
        ("log_dir = /var/log\nlog_file = x.log", Some("/var/log/x.log")),
        ("log_dir = /var/log\nlog_file = /tmp/x.log", Some("/tmp/x.log")),
        ("log_file = x.log", Some("x.log")),
    ] {
        let config = Config::parse_for_test(&format!("[DEFAULT]\n{text}\n")).expect("config");
        let path = log_path(&config.service, "magnum-api");
        assert_eq!(path.as_deref(), wanted.map(Path::new), "{text}");
    }
}

#[test]
fn the_level_is_info_or_debug_unless_the_environment_says_otherwise() {
    for (wanted, debug, shown) in
        [(None, false, "actix_http=off,info"), (Some(""), false, "actix_http=off,info"), (Some("warn"), true, "warn")]
    {
        assert_eq!(filter(wanted, debug).expect("filter").to_string(), shown);
    }
    assert!(filter(None, true).expect("filter").to_string().contains("debug"));
    assert!(filter(Some("a=b=c"), false).is_err());
}

#[test]
fn a_started_program_logs_to_its_file_until_the_guard_is_dropped() {
    let directory = tempfile::tempdir().expect("directory");
    let text = format!("[DEFAULT]\nlog_dir = {}\nuse_stderr = no\n", directory.path().display());
    let service = Config::parse_for_test(&text).expect("config").service;
    let guard = init(&service, "magnum-test", None).expect("logging starts");
    tracing::warn!(answer = 42, "Logged by the whole process");
    drop(guard);
    let text = std::fs::read_to_string(directory.path().join("magnum-test.log")).expect("read");
    let line = text.lines().find(|line| line.contains("whole process")).expect("the line");
    let (time, rest) = line.split_at(23);
    assert!(chrono::NaiveDateTime::parse_from_str(time, "%Y-%m-%d %H:%M:%S%.3f").is_ok(), "{line}");
    let wanted = format!(" {} WARNING server::telemetry::tests [-] Logged by the whole process answer=42", std::process::id());
    assert_eq!(rest, wanted);
}

#[test]
fn a_file_that_was_given_another_name_is_left_when_it_is_told() {
    let folder = tempfile::tempdir().expect("folder");
    let (path, old) = (folder.path().join("magnum-api.log"), folder.path().join("magnum-api.log.1"));
    let writer = Writer::start(vec![Sink::append_to(&path).expect("open")], 64).expect("writer");
    writer.handle().write("one\n".to_owned());
    writer.flush();
    std::fs::rename(&path, &old).expect("rotate");
    writer.handle().write("two\n".to_owned());
    assert!(writer.reopen());
    writer.handle().write("three\n".to_owned());
    drop(writer);
    let text = |path| std::fs::read_to_string(path).expect("read");
    assert_eq!((text(&old), text(&path)), ("one\ntwo\n".to_owned(), "three\n".to_owned()));
}
