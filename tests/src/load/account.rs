//! What a process has used: CPU time and memory, as the kernel counts them.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The kernel's clock ticks in a second, as it shows them to programs on every Linux.
const TICKS: u64 = 100;

/// What a process has used until now.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// User and system time of all its threads.
    pub cpu: Duration,
    /// Memory now, in KiB.
    pub resident: u64,
    /// What of that is the program's and its libraries' own pages, in KiB: shared by all processes of the same program.
    pub program: u64,
    /// Memory at most, in KiB.
    pub peak: u64,
}

impl Account {
    /// Looks at a process.
    pub fn of(pid: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            fs::read_to_string(&path).with_context(|| format!("read {path}"))
        };
        let (stat, status) = (read("stat")?, read("status")?);
        Ok(Self {
            cpu: cpu(&stat).context("utime and stime in stat")?,
            resident: kibibytes(&status, "VmRSS:").context("VmRSS in status")?,
            program: kibibytes(&status, "RssFile:").context("RssFile in status")?,
            peak: kibibytes(&status, "VmHWM:").context("VmHWM in status")?,
        })
    }
}

/// Fields 14 and 15; the second field is the program's name in brackets and may hold anything.
fn cpu(stat: &str) -> Option<Duration> {
    let rest = stat.get(stat.rfind(')')? + 1..)?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1000 / TICKS))
}

fn kibibytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_name_of_the_program() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 120 30 0 0 20 0 3 0 100 1 2";
        assert_eq!(cpu(stat), Some(Duration::from_millis(1500)));
        assert_eq!(kibibytes("VmHWM:\t  25600 kB\nVmRSS:\t 1 kB\n", "VmHWM:"), Some(25_600));
    }

    #[test]
    fn a_process_can_look_at_itself() {
        let account = Account::of(std::process::id()).expect("our own account");
        assert!(account.peak >= account.resident && account.resident > 0);
    }
}
