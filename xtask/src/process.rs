//! Starting, finding again and stopping processes of our own. A process is held by its pid together with its start time,
//! so that a pid which the system has given to another process meanwhile is never signalled.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const POLL: Duration = Duration::from_millis(50);

/// A process remembered in a file: "pid start-time". It leads a process group of its own.
pub struct Held {
    file: PathBuf,
}

impl Held {
    /// The process remembered in `file`, which need not exist.
    pub fn at(file: PathBuf) -> Self {
        Self { file }
    }

    /// Starts `command` in a process group of its own with its output in `log`, and remembers it.
    pub fn start(&self, command: &mut Command, log: &Path) -> Result<Child> {
        let out = File::options().create(true).append(true).open(log).with_context(|| format!("open {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out.try_clone().context("share the log")?).stderr(out).process_group(0);
        let child = command.spawn().with_context(|| format!("start {}", command.get_program().to_string_lossy()))?;
        let started = start_time(child.id()).with_context(|| format!("{} ended at once", command.get_program().to_string_lossy()))?;
        fs::write(&self.file, format!("{} {started}\n", child.id())).with_context(|| format!("write {}", self.file.display()))?;
        Ok(child)
    }

    /// Its pid, when it still runs.
    pub fn pid(&self) -> Option<u32> {
        let text = fs::read_to_string(&self.file).ok()?;
        let mut words = text.split_whitespace();
        let (pid, started) = (words.next()?.parse().ok()?, words.next()?);
        (start_time(pid).as_deref() == Some(started)).then_some(pid)
    }

    /// Ends its whole group at once, as a power cut would. Fine when it has ended already.
    pub fn kill(&self) -> Result<()> {
        let Some(pid) = self.pid() else { return Ok(()) };
        signal("KILL", &format!("-{pid}"));
        if !wait_until(Duration::from_secs(10), || self.pid().is_none()) {
            bail!("process {pid} does not end");
        }
        Ok(())
    }

    /// Asks it to end, waits, then kills its whole group. Fine when it has ended already.
    pub fn stop(&self, patience: Duration) -> Result<()> {
        if let Some(pid) = self.pid() {
            signal("TERM", &pid.to_string());
            wait_until(patience, || self.pid().is_none());
            // What the leader left behind in its group goes too; a group lives as long as any member.
            signal("KILL", &format!("-{pid}"));
            if !wait_until(Duration::from_secs(10), || self.pid().is_none()) {
                bail!("process {pid} does not end");
            }
        }
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("forget the pid"),
            _ => Ok(()),
        }
    }
}

/// Field 22 of /proc/PID/stat; None when there is no such process or it is only waiting to be reaped.
fn start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets and may hold anything.
    let mut rest = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = rest.next()?;
    (state != "Z" && state != "X").then(|| rest.nth(18).map(str::to_owned)).flatten()
}

fn signal(name: &str, target: &str) {
    // The shell's own kill: no package needed. It fails when the process has just ended, which is what we want anyway.
    let _ = Command::new("sh").args(["-c", "kill -s \"$1\" -- \"$2\"", "sh", name, target]).stderr(Stdio::null()).status();
}

/// Looks until `condition` holds; false when the time is up.
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(POLL);
    }
}

/// Runs a command in the foreground, with a deadline.
pub fn run(command: &mut Command, limit: Duration) -> Result<ExitStatus> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("start {name}"))?;
    wait(&mut child, &name, limit)
}

/// The same; an error when it fails.
pub fn must(command: &mut Command, what: &str, limit: Duration) -> Result<()> {
    let status = run(command, limit)?;
    if status.success() { Ok(()) } else { bail!("{what}: {status}") }
}

/// Waits for a child, and kills it when the time is up.
pub fn wait(child: &mut Child, name: &str, limit: Duration) -> Result<ExitStatus> {
    let mut ended = None;
    let in_time = wait_until(limit, || match child.try_wait() {
        Ok(None) => false,
        other => {
            ended = Some(other);
            true
        }
    });
    if !in_time {
        let _ = child.kill();
        let _ = child.wait();
        bail!("{name} took longer than {} s and was stopped", limit.as_secs());
    }
    ended.and_then(Result::transpose).with_context(|| format!("{name} cannot be waited for"))?.with_context(|| format!("wait for {name}"))
}

/// The exit code to hand on; a signal counts as 128 + its number, as in a shell.
pub fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// Replaces this process by `command`: Ctrl-C and every other signal reach it directly, and its exit code is ours.
pub fn become_command(command: &mut Command) -> anyhow::Error {
    let name = command.get_program().to_string_lossy().into_owned();
    anyhow::Error::new(command.exec()).context(format!("start {name}"))
}

/// Whether a program can be found on PATH or in the folders where Debian keeps servers.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from)).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The last lines of a log, for an error message.
pub fn tail(log: &Path, lines: usize) -> String {
    let Ok(mut file) = File::open(log) else {
        return format!("(no log at {})", log.display());
    };
    let len = file.metadata().map_or(0, |m| m.len());
    let mut text = Vec::new();
    if file.seek(SeekFrom::Start(len.saturating_sub(64 * 1024))).and_then(|_| file.read_to_end(&mut text)).is_err() {
        return format!("({} cannot be read)", log.display());
    }
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("xtask-process-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("temporary folder");
        dir
    }

    #[test]
    fn a_held_process_is_found_again_and_stopped_with_its_group() {
        let dir = folder("held");
        let held = Held::at(dir.join("pid"));
        let mut child = held
            .start(Command::new("sh").args(["-c", "sleep 600 & echo $! >$0/child; wait", dir.to_str().expect("utf-8")]), &dir.join("log"))
            .expect("start");
        assert_eq!(Held::at(dir.join("pid")).pid(), Some(child.id()));
        assert!(wait_until(Duration::from_secs(10), || fs::read_to_string(dir.join("child")).is_ok_and(|t| t.ends_with('\n'))));
        held.stop(Duration::from_secs(5)).expect("stop");
        child.wait().expect("reap");
        assert_eq!(held.pid(), None);
        let grandchild: u32 = fs::read_to_string(dir.join("child")).expect("child").trim().parse().expect("pid");
        assert!(wait_until(Duration::from_secs(10), || start_time(grandchild).is_none()));
        fs::remove_dir_all(dir).expect("clean up");
    }

    #[test]
    fn a_pid_of_another_start_time_is_not_ours() {
        let dir = folder("foreign");
        fs::write(dir.join("pid"), format!("{} 1\n", std::process::id())).expect("write");
        let held = Held::at(dir.join("pid"));
        assert_eq!(held.pid(), None);
        held.stop(Duration::from_secs(1)).expect("nothing to stop");
        fs::remove_dir_all(dir).expect("clean up");
    }

    #[test]
    fn a_command_past_its_deadline_is_stopped() {
        let error = run(Command::new("sleep").arg("600"), Duration::from_millis(100)).expect_err("too slow");
        assert!(error.to_string().contains("took longer"), "{error}");
    }
}
