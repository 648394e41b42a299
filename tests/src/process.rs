//! One started program: its log in a file, stopped when dropped, and a watch on whether it ended by itself.
//!
//! Processes stay in the process group of the test, so that a test runner which ends a test that hangs ends them too.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Lines of a log that are shown when a test fails.
const TAIL: usize = 40;

/// A running program.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    ended_by_us: bool,
}

impl Process {
    /// Starts a program with all it prints in `<folder>/<name>.log`.
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let out = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out.try_clone().context("share the log")?).stderr(out);
        Self::spawn(name, command, log)
    }

    /// Starts a program whose standard output is read by others: it goes to `<folder>/<name>.out`.
    pub fn start_with_output(name: &str, command: &mut Command, folder: &Path) -> Result<(Self, PathBuf)> {
        let log = folder.join(format!("{name}.log"));
        let output = folder.join(format!("{name}.out"));
        let create = |path: &Path| File::create(path).with_context(|| format!("create {}", path.display()));
        command.stdin(Stdio::null()).stdout(create(&output)?).stderr(create(&log)?);
        Ok((Self::spawn(name, command, log)?, output))
    }

    fn spawn(name: &str, command: &mut Command, log: PathBuf) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("start {}", command.get_program().to_string_lossy()))?;
        Ok(Self { name: name.to_owned(), child, log, ended_by_us: false })
    }

    /// What it is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a power cut would (`kill -9`).
    pub fn kill(&mut self) -> Result<()> {
        self.ended_by_us = true;
        self.child.kill().with_context(|| format!("kill {}", self.name))?;
        self.child.wait().with_context(|| format!("wait for {}", self.name))?;
        Ok(())
    }

    /// Asks it to end (`SIGTERM`) and waits; past the limit it is killed and that is an error.
    pub fn terminate(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.ended_by_us = true;
        self.signal("TERM")?;
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                self.kill()?;
                anyhow::bail!("{} did not end within {} s of SIGTERM", self.name, limit.as_secs());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks it to end (`SIGTERM`) and does not wait.
    pub fn ask_to_end(&mut self) -> Result<()> {
        self.ended_by_us = true;
        self.signal("TERM")
    }

    /// Sends it a signal, by the signal's short name.
    pub fn signal(&self, name: &str) -> Result<()> {
        send_signal(name, self.pid()).with_context(|| self.name.clone())
    }

    /// How it ended, when it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// How it ended, when nobody asked for that.
    pub fn died(&mut self) -> Option<ExitStatus> {
        if self.ended_by_us { None } else { self.ended() }
    }

    /// Everything it logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The end of its log.
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}

/// Sends a process a signal, by the signal's short name.
pub fn send_signal(name: &str, pid: u32) -> Result<()> {
    // The shell's own kill: no package is needed for it.
    let status = Command::new("sh").args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &pid.to_string()]).status();
    ensure!(status.with_context(|| format!("send SIG{name}"))?.success(), "process {pid} could not be sent SIG{name}");
    Ok(())
}

/// Whether there is such a process that has not ended; one that nobody has waited for yet has.
pub fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the program's name in brackets and may hold anything.
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    !matches!(state, None | Some("Z" | "X"))
}

/// The processes whose command lines hold this text.
///
/// # Errors
/// When the system shows no processes.
pub fn running_with(text: &str) -> Result<Vec<u32>> {
    let pids = fs::read_dir("/proc").context("list the processes")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // Of one that has ended nothing can be read.
    let line = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    Ok(pids.filter(|pid| String::from_utf8_lossy(&line(*pid)).contains(text)).collect())
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            // It may end between the two calls; there is nothing to do about other errors.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
