//! The process between a conductor and helm: it ends helm when the conductor's right to act ends.
//!
//! A conductor that is killed cannot end its helm, nor can one that stands still, and somebody else takes over. So the conductor starts its
//! own program once more, under the name [`NAME`] and in a process group of its own, and that starts helm. It is told through its standard
//! input what helm is to read, and until when helm may run, again and again. When that moment has passed, or the pipe has ended, for nobody
//! is left who could put it off, it kills the group: helm, what helm has started, and itself. Where all of them have stood still together
//! (a container that was paused), helm has the moment that the warden takes to wake.
//!
//! Not `PR_SET_PDEATHSIG`: it is about the thread that started a process, which may end before the conductor does, and says nothing of a
//! conductor that stands still. Standard input, because the standard library gives a child no other pipe.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ExitCode, Stdio, abort};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgrp, getpid, kill_current_process_group, kill_process_group};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::time::Instant;

use super::HelmOptions;

/// What the program is called when it is to be the warden.
const NAME: &str = "magnum-helm-warden";
/// The exit code when helm was not run, as shells have it: the words are the warden's.
pub(super) const NOT_RUN: u8 = 127;
/// Between two looks at whether helm's time was put off.
const LOOK: Duration = Duration::from_millis(250);

// --- The conductor's side.

/// A warden and the process group that it leads. Dropping it kills the group.
pub(super) struct Watched(Child);

impl Watched {
    /// Starts it; it starts helm when it has been told ([`tell`]).
    pub fn start(options: &HelmOptions, line: &[String]) -> io::Result<Self> {
        let child = tokio::process::Command::new(&options.warden)
            .arg0(NAME)
            .arg(&options.program)
            .args(line)
            .env_clear()
            .envs(options.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok(Self(child))
    }

    /// The process that leads the group.
    pub fn leader(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // None once it was waited for: its number may be another's by then.
        if let Some(leader) = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Tells what helm is to read, then until when it may run, each time that has changed; goes on until it is dropped.
pub(super) async fn tell(pipe: Option<ChildStdin>, input: &str, end: &(dyn Fn() -> Instant + Send + Sync)) -> Infallible {
    if let Some(mut pipe) = pipe {
        // A warden that does not listen any more has ended; that is seen where its output ends.
        let _ = tell_on(&mut pipe, input, end).await;
    }
    std::future::pending().await
}

async fn tell_on(pipe: &mut ChildStdin, input: &str, end: &(dyn Fn() -> Instant + Send + Sync)) -> io::Result<Infallible> {
    let mut told = end();
    pipe.write_all(format!("{}\n{input}{}\n", input.len(), moment(told)).as_bytes()).await?;
    loop {
        tokio::time::sleep(LOOK).await;
        let now = end();
        if now != told {
            pipe.write_all(format!("{}\n", moment(now)).as_bytes()).await?;
            told = now;
        }
    }
}

/// A moment by [`clock`], never a later one.
fn moment(at: Instant) -> u64 {
    // The clock first: who is stopped between the two must not give away the time for which he was.
    let now = clock();
    now + u64::try_from(at.saturating_duration_since(Instant::now()).as_millis()).unwrap_or_default()
}

/// Milliseconds on the clock that both sides read: what was told before both stood still does not count from when it is heard.
fn clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let since = Duration::try_from(now).expect("it counts from the start of the machine");
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

// --- The warden's side.

/// Acts as the warden when these words, a command line, begin with its name; the program ends with this code then.
pub fn called(words: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut words = words.into_iter();
    if words.next()? != NAME {
        return None;
    }
    let code = keep(words).unwrap_or_else(|error| {
        // Nobody may be left to read it.
        let _ = writeln!(io::stderr(), "{error}");
        ExitCode::from(NOT_RUN)
    });
    Some(code)
}

/// Runs the program that these words are, and ends as it does.
fn keep(mut words: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    if getpgrp() != getpid() {
        return Err(io::Error::other("the warden of helm kills its process group and must lead one of its own"));
    }
    let mut told = BufReader::new(io::stdin());
    let mut input = vec![0; usize::try_from(number(&mut told)?).map_err(io::Error::other)?];
    told.read_exact(&mut input)?;
    let end = number(&mut told)?;
    let program = words.next().unwrap_or_default();
    thread::spawn(move || {
        watch(told, end);
        kill_all()
    });
    let helm = std::process::Command::new(&program).args(words).stdin(Stdio::piped()).spawn();
    let mut helm = helm.map_err(|error| io::Error::other(format!("the program {} cannot be run: {error}", program.display())))?;
    if let Some(mut pipe) = helm.stdin.take() {
        // A program that ends early says why on its own.
        thread::spawn(move || pipe.write_all(&input));
    }
    match helm.wait()?.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))),
        // Somebody killed it: what it has started goes too, and the conductor sees it as the end of both.
        None => kill_all(),
    }
}

/// A line that is a number.
fn number(told: &mut impl BufRead) -> io::Result<u64> {
    let mut line = String::new();
    told.read_line(&mut line)?;
    line.trim_end().parse().map_err(io::Error::other)
}

/// Returns when the last moment that was told has passed, or nobody is left to tell another.
fn watch(told: impl BufRead + Send + 'static, mut end: u64) {
    let (tell, hear) = mpsc::channel();
    thread::spawn(move || told.lines().map_while(|line| line.ok()?.parse::<u64>().ok()).try_for_each(|end| tell.send(end)));
    while let Ok(later) = hear.recv_timeout(Duration::from_millis(end.saturating_sub(clock()))) {
        end = later;
    }
}

/// Kills all of the process group, this process included.
fn kill_all() -> ! {
    let _ = kill_current_process_group(Signal::KILL);
    abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than any test.
    const LONG: u64 = 3_600_000;

    #[test]
    fn a_watch_ends_with_whoever_could_put_its_end_off() {
        watch(&b""[..], clock() + LONG);
        watch(&b"what is no moment\n"[..], clock() + LONG);
    }

    #[test]
    fn a_watch_ends_at_the_moment_that_was_told_last() {
        let (read, _open) = io::pipe().expect("a pipe");
        watch(BufReader::new(read), clock() + 20);
        let (read, mut open) = io::pipe().expect("a pipe");
        open.write_all(format!("{}\n0\n", clock() + LONG).as_bytes()).expect("there is room");
        watch(BufReader::new(read), clock() + LONG);
    }

    #[test]
    fn a_moment_is_never_told_later_than_it_is() {
        let before = clock();
        let told = moment(Instant::now() + Duration::from_millis(LONG));
        assert!((before + LONG / 2..=clock() + LONG).contains(&told), "{told}, begun at {before}");
        assert!(moment(Instant::now()) <= clock());
    }

    #[test]
    fn a_program_is_the_warden_under_its_name_only() {
        assert!(called(["magnum-conductor".into(), NAME.into()]).is_none());
        assert!(called([]).is_none());
    }
}
