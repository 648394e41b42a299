//! What the machine must have before we build or test: looked for, installed where we may (root on Debian or Ubuntu), and
//! otherwise said in one line that can be pasted. Never starts a system service.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{paths, process};

/// A set of needs.
pub type Needs = &'static [Need];

/// One thing that must be there, and the Debian package that brings it.
pub struct Need {
    package: &'static str,
    present: fn() -> bool,
}

/// To build our crates.
pub const BUILD: Needs = &[
    Need { package: "build-essential", present: || process::find_program("cc").is_some() },
    Need { package: "pkg-config", present: || process::find_program("pkg-config").is_some() },
    Need { package: "libssl-dev", present: has_openssl },
];

/// To check the scripts and first-boot documents of nodes. cloud-init runs at the next boot only where it finds a cloud's data source, Ignition only in
/// an initramfs that is asked for it.
pub const SCRIPTS: Needs = &[
    Need { package: "shellcheck", present: || process::find_program("shellcheck").is_some() },
    Need { package: "cloud-init", present: || process::find_program("cloud-init").is_some() },
    Need { package: "ignition", present: || process::find_program("ignition-validate").is_some() },
];

/// To run tests on MariaDB and RabbitMQ.
pub const SERVERS: Needs = &[
    Need { package: "mariadb-server", present: || process::find_program("mariadbd").is_some() },
    Need { package: "rabbitmq-server", present: || Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server").is_file() },
];

/// To build container images and to start them.
pub const IMAGES: Needs = &[
    Need { package: "buildah", present: || process::find_program("buildah").is_some() },
    Need { package: "busybox-static", present: || process::find_program("busybox").is_some() },
    Need { package: "dumb-init", present: || process::find_program("dumb-init").is_some() },
    Need { package: "ca-certificates", present: || Path::new("/etc/ssl/certs/ca-certificates.crt").is_file() },
    Need { package: "util-linux", present: || process::find_program("nsenter").is_some() },
    Need { package: "procps", present: || process::find_program("pgrep").is_some() },
    Need { package: "iproute2", present: || process::find_program("ss").is_some() },
];

/// To boot nodes.
pub const NODE: Needs = &[
    Need { package: "systemd-container", present: || process::find_program("systemd-nspawn").is_some() },
    Need { package: "mmdebstrap", present: || process::find_program("mmdebstrap").is_some() },
    Need { package: "debian-archive-keyring", present: || Path::new("/usr/share/keyrings/debian-archive-keyring.gpg").is_file() },
    Need { package: "util-linux", present: || process::find_program("nsenter").is_some() },
    Need { package: "procps", present: || process::find_program("pgrep").is_some() },
    Need { package: "iproute2", present: || process::find_program("ip").is_some() },
];

/// To test a rolling restart behind a load balancer, and processes that share what they know.
pub const BESIDE: Needs = &[
    Need { package: "haproxy", present: || process::find_program("haproxy").is_some() },
    Need { package: "memcached", present: || process::find_program("memcached").is_some() },
];

/// To make an environment for a Python tool.
pub const PYTHON: Needs = &[Need { package: "python3-venv", present: has_venv }];

/// The lab's own list, of which a line is a package.
const LAB_PACKAGES: &str = include_str!("../../tests/lab/packages.txt");

/// Makes sure that all of it is there.
pub fn ensure(sets: &[Needs]) -> Result<()> {
    let missing: Vec<&str> = sets.iter().flat_map(|set| set.iter()).filter(|need| !(need.present)()).map(|need| need.package).collect();
    install(&missing)?;
    let still: Vec<&str> = sets.iter().flat_map(|set| set.iter()).filter(|need| !(need.present)()).map(|need| need.package).collect();
    if still.is_empty() { Ok(()) } else { bail!("installed, but still not found: {}", still.join(" ")) }
}

/// Makes sure that the lab's packages are there.
pub fn ensure_lab() -> Result<()> {
    if process::find_program("apt-get").is_none() || !paths::is_root() {
        bail!("the lab needs root on Debian or Ubuntu: it installs packages and starts servers as their own users");
    }
    let missing: Vec<&str> = LAB_PACKAGES.split_whitespace().filter(|package| !is_installed(package)).collect();
    install(&missing)
}

fn has_openssl() -> bool {
    Command::new("pkg-config").args(["--exists", "openssl"]).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

fn has_venv() -> bool {
    Command::new("python3").args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

fn is_installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", package])
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|o| o.status.success() && o.stdout == b"installed")
}

fn install(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !paths::is_root() || process::find_program("apt-get").is_none() {
        bail!("missing on this machine: {list}. On Debian or Ubuntu run:\n  sudo apt-get install -y --no-install-recommends {list}");
    }
    eprintln!("installing: {list}");
    let _no_start = NoServiceStart::set()?;
    // The package lists may be fresh enough: they are fetched only when the first try fails.
    if apt(&["install", "-y", "--no-install-recommends"], packages)? {
        return Ok(());
    }
    if !apt(&["update"], &[])? {
        bail!("apt-get update failed");
    }
    if !apt(&["install", "-y", "--no-install-recommends"], packages)? {
        bail!("apt-get install {list} failed");
    }
    Ok(())
}

fn apt(verb: &[&str], packages: &[&str]) -> Result<bool> {
    let mut command = Command::new("apt-get");
    command.args(["-q", "-o", "DPkg::Lock::Timeout=600", "-o", "Acquire::Retries=3"]).args(verb).args(packages);
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(std::io::stderr());
    process::run(&mut command, Duration::from_secs(1800)).map(|status| status.success())
}

/// While it lives, installed packages do not start their services. A policy that is there already stays.
struct NoServiceStart {
    ours: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl NoServiceStart {
    fn set() -> Result<Self> {
        if Path::new(POLICY).exists() {
            return Ok(Self { ours: false });
        }
        fs::write(POLICY, "#!/bin/sh\nexit 101\n").context("write policy-rc.d")?;
        fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755)).context("make policy-rc.d executable")?;
        Ok(Self { ours: true })
    }
}

impl Drop for NoServiceStart {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(POLICY);
        }
    }
}
