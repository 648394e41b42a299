//! The process between a conductor and helm: it ends helm when the conductor's right to act ends.
//!
//! A conductor that is killed cannot end its helm, nor can one that stands still, and somebody else takes over. So the conductor starts its
//! own program once more, under the name [`NAME`] and in a process group of its own, and that starts helm. It is told through its standard
//! input what helm is to read, and until when helm may run, again and again. When that moment has passed, or the pipe has ended, for nobody
//! is left who could put it off, it kills the group: helm, what helm has started, and itself. Where all of them have stood still together
//! (a container that was paused, a machine that was asleep), helm has the moment that the warden takes to wake. Where the warden itself is
//! gone, the conductor kills what it has left behind.
//!
//! Not `PR_SET_PDEATHSIG`: it is about the thread that started a process, which may end before the conductor does, and says nothing of a
//! conductor that stands still. Standard input, because the standard library gives a child no other pipe.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::panic;
use std::process::{ExitCode, Stdio, abort};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgrp, getpid, kill_current_process_group, kill_process_group, waitid};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::time::Instant;

use super::HelmOptions;

/// What the program is called when it is to be the warden.
const NAME: &str = "magnum-helm-warden";
/// The exit code when there is no helm, or none that may be run, as shells have it: the words are the warden's.
pub(super) const NO_PROGRAM: u8 = 127;
/// The exit code when helm was not run for any other reason, as `env` and `timeout` have it.
pub(super) const NOT_RUN: u8 = 125;
/// What is left of a group that nobody leads any more may be about to end: it has so long.
pub(super) const LEFT: Duration = Duration::from_secs(2);
/// Between two looks at whether helm's time was put off, or its warden has ended.
const LOOK: Duration = Duration::from_millis(250);
/// The longest wait at a time: a machine that was asleep has not waited, and yet its time has passed.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Where programs find libraries besides the usual places.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

// --- The conductor's side.

/// A warden and the process group that it leads. Dropping it kills the group.
pub(super) struct Watched(Child);

impl Watched {
    /// Starts it; it starts helm when it has been told ([`tell`]).
    pub fn start(options: &HelmOptions, line: &[String]) -> io::Result<Self> {
        let mut command = tokio::process::Command::new(&options.warden);
        command.arg0(NAME).arg(&options.program).args(line).env_clear();
        command.envs(options.environment.iter().map(|(name, value)| (name, value)));
        // The warden is this program and may need them as it does; it keeps them from helm.
        command.envs(options.libraries.iter().map(|places| (LIBRARIES, places)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        Ok(Self(command.spawn()?))
    }

    /// The process that leads the group.
    pub fn leader(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Its number, which is the group's; none once it was waited for: it may be another's by then.
    pub fn number(&self) -> Option<Pid> {
        self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
    }

    /// Kills the group.
    pub fn kill(&self) {
        if let Some(leader) = self.number() {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns when this leader has ended, and what it has left behind has had time to end, too. It is not waited for here: as long as it is not,
/// no other group can have its number.
pub(super) async fn left_behind(leader: Option<Pid>) {
    let Some(leader) = leader else { return std::future::pending().await };
    while !has_ended(leader) {
        tokio::time::sleep(LOOK).await;
    }
    tokio::time::sleep(LEFT).await;
}

fn has_ended(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(child), options).is_ok_and(|ended| ended.is_some())
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

/// Milliseconds on the clock that both sides read: what was told before both stood still does not count from when it is heard. It goes on
/// while the machine is asleep, for others are awake.
fn clock() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let since = Duration::try_from(now).expect("it counts from the start of the machine");
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

// --- The warden's side.

/// Why helm was not run.
struct NotRun {
    code: u8,
    error: io::Error,
}

impl From<io::Error> for NotRun {
    fn from(error: io::Error) -> Self {
        Self { code: NOT_RUN, error }
    }
}

impl NotRun {
    /// The program could not be started.
    fn program(program: &OsStr, error: &io::Error) -> Self {
        // All else may be of the moment: no process, no memory, no descriptor to be had.
        let lasts = error.raw_os_error().is_some_and(|code| [Errno::NOENT, Errno::ACCESS].iter().any(|known| known.raw_os_error() == code));
        let code = if lasts { NO_PROGRAM } else { NOT_RUN };
        Self { code, error: io::Error::other(format!("the program {} cannot be run: {error}", program.display())) }
    }
}

/// Acts as the warden when these words, a command line, begin with its name; the program ends with this code then.
pub fn called(words: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut words = words.into_iter();
    if words.next()? != NAME {
        return None;
    }
    let code = keep(words).unwrap_or_else(|NotRun { code, error }| {
        // Nobody may be left to read it.
        let _ = writeln!(io::stderr(), "{error}");
        ExitCode::from(code)
    });
    Some(code)
}

/// Runs the program that these words are, and ends as it does.
fn keep(mut words: impl Iterator<Item = OsString>) -> Result<ExitCode, NotRun> {
    if getpgrp() != getpid() {
        return Err(io::Error::other("the warden of helm kills its process group and must lead one of its own").into());
    }
    let mut told = BufReader::new(io::stdin());
    let mut input = vec![0; usize::try_from(number(&mut told)?).map_err(io::Error::other)?];
    told.read_exact(&mut input)?;
    let end = number(&mut told)?;
    let program = words.next().unwrap_or_default();
    // A warden that panics, in whichever thread, leaves no helm without one.
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        usual(what);
        kill_all();
    }));
    // Before helm: where no thread is to be had, helm is not to be run.
    let hear = listen(told)?;
    thread::Builder::new().name("watch".to_owned()).spawn(move || {
        watch(&hear, end, clock);
        kill_all()
    })?;
    let helm = std::process::Command::new(&program).args(words).env_remove(LIBRARIES).stdin(Stdio::piped()).spawn();
    let mut helm = helm.map_err(|error| NotRun::program(&program, &error))?;
    if let Some(mut pipe) = helm.stdin.take() {
        // A program that ends early says why on its own; one that does not read is killed by the watch, and this process with it.
        let _ = pipe.write_all(&input);
    }
    match helm.wait().ok().and_then(|status| status.code()) {
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

/// Passes on each moment that is told, in a thread of its own, until nobody is left to tell another.
fn listen(told: impl BufRead + Send + 'static) -> io::Result<Receiver<u64>> {
    let (tell, hear) = mpsc::channel();
    let pass_on = move || told.lines().map_while(|line| line.ok()?.parse::<u64>().ok()).try_for_each(|end| tell.send(end));
    thread::Builder::new().name("listen".to_owned()).spawn(pass_on)?;
    Ok(hear)
}

/// Returns when the last moment that was told has passed by this clock, or nobody is left to tell another.
fn watch(hear: &Receiver<u64>, mut end: u64, clock: impl Fn() -> u64) {
    loop {
        let left = Duration::from_millis(end.saturating_sub(clock()));
        match hear.recv_timeout(left.min(LONGEST_WAIT)) {
            Ok(later) => end = later,
            Err(RecvTimeoutError::Timeout) if clock() < end => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Kills all of the process group, this process included.
fn kill_all() -> ! {
    let _ = kill_current_process_group(Signal::KILL);
    abort()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Longer than any test.
    const LONG: u64 = 3_600_000;

    fn watched(told: impl BufRead + Send + 'static, end: u64) {
        watch(&listen(told).expect("a thread"), end, clock);
    }

    #[test]
    fn a_watch_ends_with_whoever_could_put_its_end_off() {
        watched(&b""[..], clock() + LONG);
        watched(&b"what is no moment\n"[..], clock() + LONG);
    }

    #[test]
    fn a_watch_ends_at_the_moment_that_was_told_last() {
        let (read, _open) = io::pipe().expect("a pipe");
        watched(BufReader::new(read), clock() + 20);
        let (read, mut open) = io::pipe().expect("a pipe");
        open.write_all(format!("{}\n0\n", clock() + LONG).as_bytes()).expect("there is room");
        watched(BufReader::new(read), clock() + LONG);
    }

    #[test]
    fn a_watch_on_a_machine_that_was_asleep_ends_soon() {
        let (read, _open) = io::pipe().expect("a pipe");
        let hear = listen(BufReader::new(read)).expect("a thread");
        let looks = Cell::new(0);
        // The machine falls asleep after the first look.
        let clock = || if looks.replace(looks.get() + 1) == 0 { 0 } else { LONG };
        let begun = Instant::now();
        watch(&hear, LONG / 2, clock);
        assert!(looks.get() > 1 && begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }

    #[test]
    fn only_a_program_that_is_not_there_or_may_not_be_run_stays_so() {
        let code = |errno: Errno| NotRun::program("helm".as_ref(), &io::Error::from(errno)).code;
        assert_eq!([Errno::NOENT, Errno::ACCESS].map(code), [NO_PROGRAM; 2]);
        assert_eq!([Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::TXTBSY, Errno::PERM].map(code), [NOT_RUN; 5]);
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
