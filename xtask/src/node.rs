//! `node`: real machines from the first-boot documents that the Heat driver writes. They are containers of systemd-nspawn, in namespaces of
//! their own, with an image of Debian's packages that is made once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{cargo, images, keep, paths, prerequisites, process, servers};

/// Debian's release in the image.
const SUITE: &str = "bookworm";

/// What is in the image beside what every Debian has. The scripts of nodes need curl, kmod, iproute2 and procps of it, the stand-ins openssl.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,cloud-init,ignition,curl,ca-certificates,openssl,kmod,procps,iproute2,iputils-ping,\
                        iputils-arping,e2fsprogs";

/// Files of the image. As images of servers have them that serve as nodes: their network is made for them, and cloud-init looks for a config
/// drive; on those that Ignition sets up nothing starts that is not asked for, and labels are no matter.
const FILES: [(&str, &str); 4] = [
    ("etc/cloud/cloud.cfg.d/99-node.cfg", "network: {config: disabled}\ndatasource_list: [ConfigDrive, None]\nlocale: false\n"),
    ("etc/systemd/system-preset/30-default-disable.preset", "disable *\n"),
    ("etc/selinux/config", "SELINUX=disabled\nSELINUXTYPE=targeted\n"),
    // A machine's own id is made when it boots first.
    ("etc/machine-id", ""),
];

/// Modules that a node loads. Machines here run with this machine's kernel, and may load nothing into it.
const MODULES: [&str; 2] = ["overlay", "br_netfilter"];

/// To be raised when the image is made otherwise than before.
const FORM: u32 = 2;

/// Making the image, and more than the run allows its parts: a slow failure is to tell itself what was slow.
const LONGEST: Duration = Duration::from_secs(3600);

/// Namespaces that end with this program, and take with them what was started there.
const ALONE: [&str; 11] = [
    "--pdeathsig",
    "KILL",
    "unshare",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation=private",
    "--",
];

/// In there: a `/run` of its own; and a control group of its own (the first argument) in every hierarchy that systemd looks at, for machines put
/// their groups beside the program's.
const BEGIN: &str = r#"set -e
mount -t tmpfs -o mode=755 none /run
mkdir /run/netns
ip link set lo up
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
  [ -e "$hierarchy/cgroup.procs" ] || continue
  mkdir "$hierarchy/$0"
  echo 0 > "$hierarchy/$0/cgroup.procs"
done
exec "$@"
"#;

/// The groups that are left then, of which no process is.
const END: &str = r#"for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
  [ ! -d "$hierarchy/$0" ] || find "$hierarchy/$0" -depth -type d -exec rmdir {} +
done
"#;

/// What is in the way on this machine, if anything is.
pub fn obstacle() -> Option<String> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Some("nodes are of x86-64 or of 64-bit ARM".to_owned());
    }
    if !images::can_run() {
        return Some("it needs root on Debian, with leave to make namespaces".to_owned());
    }
    // They are one kernel's for all.
    if fs::read_to_string("/proc/swaps").is_ok_and(|all| all.lines().count() > 1) {
        return Some("this machine has swap, which a node would try to switch off".to_owned());
    }
    let kinds = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has = |kind: &str| kinds.lines().any(|line| line.split_whitespace().last() == Some(kind));
    if !Path::new("/dev/loop-control").exists() || !has("ext4") {
        return Some("the kernel lacks loop devices or ext4, for the volumes of nodes: modprobe -a loop ext4".to_owned());
    }
    if !has("overlay") || !Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables").exists() {
        return Some(format!("the kernel lacks one of these: modprobe -a {}", MODULES.join(" ")));
    }
    None
}

/// Builds the programs, then all of [`start`].
pub fn run() -> Result<u8> {
    if let Some(obstacle) = obstacle() {
        bail!("nodes cannot be booted here: {obstacle}");
    }
    prerequisites::ensure(&[prerequisites::BUILD, prerequisites::NODE])?;
    cargo::build_binaries()?;
    start()
}

/// Boots machines with the programs that are built, and looks at what becomes of them. What [`prerequisites::NODE`] names is there: others may
/// install packages meanwhile.
pub fn start() -> Result<u8> {
    let image = image()?;
    let dir = servers::fresh_dir("node")?;
    paths::open_folder(&dir)?;
    let keeper = keep::Keeper::start(&dir, false)?;
    let group = format!("magnum-node-{}", std::process::id());
    let mut command = Command::new("setpriv");
    command.args(ALONE).args(["sh", "-c", BEGIN, &group]).arg(paths::bin_dir("debug").join("node"));
    command.arg("--image").arg(&image).arg("--folder").arg(&dir).env("MAGNUM_BIN_DIR", paths::bin_dir("debug"));
    let status = process::run(&mut command, LONGEST);
    let ended = must(Command::new("sh").args(["-c", END, &group]), "removing control groups");
    keeper.finish()?;
    ended?;
    status.map(process::exit_code)
}

/// The image's files in the cache folder, made once for each kernel.
fn image() -> Result<PathBuf> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("read the kernel's release")?;
    let kernel = kernel.trim();
    let name = format!("node-image-{FORM}-{SUITE}-{kernel}");
    let image = paths::made_once(&name, |own| make(own, kernel))?;
    // Those of other kernels, or made otherwise.
    let cache = paths::cache_dir()?;
    for other in fs::read_dir(&cache).context("look into the cache folder")? {
        let other = other.context("look into the cache folder")?;
        if other.file_name().to_string_lossy().starts_with("node-image-") && other.path() != image {
            paths::remove(&other.path())?;
        }
    }
    Ok(image)
}

fn make(into: &Path, kernel: &str) -> Result<()> {
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--variant=minbase", "--format=directory", "--aptopt=Acquire::Retries \"3\""]);
    command.arg(format!("--include={PACKAGES}"));
    command.args(["man", "doc", "locale", "info"].map(|folder| format!("--dpkgopt=path-exclude=/usr/share/{folder}/*")));
    must(command.arg(SUITE).arg(into), "mmdebstrap")?;
    let write = |path: &str, text: &str| {
        let path = into.join(path);
        fs::create_dir_all(path.parent().context("a folder")?)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| path.display().to_string())
    };
    for (path, text) in FILES {
        write(path, text)?;
    }
    // Ignition labels what it has written, and there are no labels.
    std::os::unix::fs::symlink("/bin/true", into.join("usr/sbin/setfiles")).context("stand in for setfiles")?;
    // Modules that are there already, loaded or not, count as built in.
    let built_in: String = MODULES.iter().map(|module| format!("kernel/{module}.ko\n")).collect();
    write(&format!("lib/modules/{kernel}/modules.builtin"), &built_in)?;
    write(&format!("lib/modules/{kernel}/modules.order"), "")?;
    write(&format!("lib/modules/{kernel}/modules.builtin.modinfo"), "")?;
    must(Command::new("chroot").arg(into).args(["depmod", kernel]), "depmod")
}

fn must(command: &mut Command, what: &str) -> Result<()> {
    process::must(command, what, LONGEST)
}
