//! A machine that starts from an image with the user data of a server: systemd as its first process, a disk and a network of its own.
//!
//! It is a container of systemd-nspawn, made in namespaces that end with this program (`cargo xtask node`): nothing of it is left, however
//! this program ends.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tests::process::{Process, send_signal};
use tests::wait::{self, PATIENCE, Seen};
use tokio::process::Command;
use tokio::time::timeout;

use crate::data::{Image, UserData};

/// The address of this program in a machine's network.
pub fn gateway(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, number * 16 + 1)
}

/// A machine's own address.
pub fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, number * 16 + 2)
}

/// An address of a machine's network that nobody has.
pub fn free_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, number * 16 + 3)
}

/// Whom an image trusts.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Bytes of a volume: a file system has room in it.
const VOLUME: u64 = 64 << 20;

/// A machine, running or not.
pub struct Machine {
    name: String,
    folder: PathBuf,
    process: Option<Process>,
    volumes: Vec<Volume>,
}

/// A block device beside the machine's own disk. It goes with the last who has it open.
struct Volume {
    device: PathBuf,
    _open: fs::File,
}

impl Machine {
    /// One that has never run, of an image that asks the cloud for its user data (cloud-init), or is set up with it before it starts (Ignition).
    /// `number` tells its network from the others' (0 to 15); `hosts` are names that lead to this program.
    pub async fn install(image: &Path, folder: &Path, number: u8, data: &UserData, hosts: &[&str], trusted: &str) -> Result<Self> {
        let name = format!("node{number}");
        let folder = folder.join(&name);
        fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
        let machine = Self { name, folder, process: None, volumes: Vec::new() };
        run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(image).arg(machine.root())).await?;
        fs::write(machine.path(AUTHORITIES), trusted).context("write the image's authorities")?;
        if data.image == Image::Flatcar {
            machine.become_flatcar().await?;
        }
        match data.image {
            Image::Ubuntu => machine.insert_drive(&data.text)?,
            Image::FedoraCoreos | Image::Flatcar => machine.ignite(&data.text).await?,
        }
        let lines: String = hosts.iter().map(|host| format!("{} {host}\n", gateway(number))).collect();
        fs::write(machine.path("/etc/hosts"), format!("127.0.0.1 localhost\n{lines}")).context("write /etc/hosts")?;
        machine.connect(number).await?;
        Ok(machine)
    }

    /// Lays it out as Flatcar is, where that matters: nothing below `/usr` can be written, and authorities are links to there; a container runtime
    /// is named for being laid over it; there are labels, which nothing enforces and programs in places of ours do not get.
    async fn become_flatcar(&self) -> Result<()> {
        let link = |target: &str, path: &str| symlink(target, self.path(path)).with_context(|| format!("link {path}"));
        let shared = "/usr/share/ca-certificates/ca-certificates.crt";
        fs::rename(self.path(AUTHORITIES), self.path(shared)).context("move the image's authorities")?;
        link(&format!("../../..{shared}"), AUTHORITIES)?;
        fs::create_dir_all(self.path("/etc/extensions")).context("make the folder of extensions")?;
        for name in ["docker-flatcar.raw", "containerd-flatcar.raw"] {
            link(&format!("/usr/share/flatcar/sysext/{name}"), &format!("/etc/extensions/{name}"))?;
        }
        link("/bin/false", "/usr/sbin/restorecon")?;
        self.write("/usr/sbin/getenforce", "#!/bin/sh\necho Permissive\n")?;
        fs::set_permissions(self.path("/usr/sbin/getenforce"), fs::Permissions::from_mode(0o755)).context("make it executable")?;
        let usr = self.path("/usr");
        run(Command::new("mount").arg("--bind").args([&usr, &usr])).await?;
        run(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(&usr)).await
    }

    /// The config drive of a server.
    fn insert_drive(&self, user_data: &str) -> Result<()> {
        let drive = self.path("/var/lib/cloud/seed/config_drive/openstack/latest");
        fs::create_dir_all(&drive).context("make the config drive")?;
        let metadata = serde_json::json!({"uuid": uuid::Uuid::new_v4().to_string(), "name": self.name, "hostname": self.name});
        fs::write(drive.join("meta_data.json"), metadata.to_string()).context("write the metadata")?;
        fs::write(drive.join("user_data"), user_data).context("write the user data")
    }

    /// What the image's first root file system does before the real one is started, and knows a machine's first boot by: it has no id yet.
    async fn ignite(&self, user_data: &str) -> Result<()> {
        fs::write(self.path("/ignition.json"), user_data).context("write the user data")?;
        run(Command::new("mount").args(["-t", "proc", "none"]).arg(self.path("/proc"))).await?;
        for stage in ["fetch-offline", "fetch", "files"] {
            let mut command = Command::new("chroot");
            command.arg(self.root()).args(["env", "IGNITION_CONFIG_FILE=/ignition.json", "/usr/lib/dracut/modules.d/30ignition/ignition"]);
            command.args(["--platform=file", "--root=/", "--config-cache=/ignition.cache", "--neednet=/ignition.net", "--log-to-stdout"]);
            run(command.arg(format!("--stage={stage}"))).await?;
        }
        run(Command::new("umount").arg(self.path("/proc"))).await?;
        for file in ["/ignition.json", "/ignition.cache", "/etc/machine-id"] {
            fs::remove_file(self.path(file)).with_context(|| format!("remove {file}"))?;
        }
        fs::write(self.path("/etc/cloud/cloud-init.disabled"), "").context("leave cloud-init out")
    }

    /// Attaches an empty volume, while it is off. As with disks of virtio, what the machine sees of its id are the first twenty characters.
    pub async fn attach(&mut self, volume: &str) -> Result<()> {
        let content = self.folder.join(format!("volume-{volume}"));
        fs::File::create(&content).and_then(|file| file.set_len(VOLUME)).context("make a volume")?;
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&content).kill_on_drop(true).output();
        let output = timeout(PATIENCE, output).await.context("losetup hangs")?.context("losetup")?;
        ensure!(output.status.success(), "losetup: {}", String::from_utf8_lossy(&output.stderr));
        let device = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let open = fs::File::open(&device).with_context(|| format!("open {}", device.display()))?;
        // As long as it is open it stays.
        run(Command::new("losetup").arg("--detach").arg(&device)).await?;
        let seen = volume.get(..20).context("a volume's id")?;
        fs::create_dir_all(self.disks()).context("make the folder of disks")?;
        symlink(&device, self.disks().join(format!("virtio-{seen}"))).context("name the volume")?;
        self.volumes.push(Volume { device, _open: open });
        Ok(())
    }

    /// The names of its volumes.
    fn disks(&self) -> PathBuf {
        self.folder.join("disks")
    }

    /// As Neutron and the image's own means would do it.
    async fn connect(&self, number: u8) -> Result<()> {
        let (here, name) = (format!("to-{}", self.name), self.name.as_str());
        let (ours, its) = (format!("{}/28", gateway(number)), format!("{}/28", address(number)));
        let gateway = gateway(number).to_string();
        for line in [
            vec!["netns", "add", name],
            vec!["link", "add", &here, "type", "veth", "peer", "name", "eth0", "netns", name],
            vec!["address", "add", &ours, "dev", &here],
            vec!["link", "set", &here, "up"],
            vec!["-n", name, "link", "set", "lo", "up"],
            vec!["-n", name, "address", "add", &its, "dev", "eth0"],
            vec!["-n", name, "link", "set", "eth0", "up"],
            vec!["-n", name, "route", "add", "default", "via", &gateway],
        ] {
            run(Command::new("ip").args(line)).await?;
        }
        Ok(())
    }

    /// Switches it on.
    pub fn boot(&mut self) -> Result<()> {
        let mut command = std::process::Command::new("systemd-nspawn");
        command.args(["--quiet", "--register=no", "--keep-unit", "--boot", "--console=pipe", "--capability=CAP_NET_ADMIN"]);
        command.arg(format!("--directory={}", self.root().display())).arg(format!("--machine={}", self.name));
        command.arg(format!("--network-namespace-path=/run/netns/{}", self.name));
        for volume in &self.volumes {
            command.arg(format!("--bind={}", volume.device.display()));
        }
        if !self.volumes.is_empty() {
            command.arg(format!("--bind-ro={}:/dev/disk/by-id", self.disks().display()));
        }
        // The settings of its own network are the machine's.
        command.env("SYSTEMD_NSPAWN_API_VFS_WRITABLE", "network");
        self.process = Some(Process::start("console", &mut command, &self.folder)?);
        Ok(())
    }

    /// All that runs in it is killed at once.
    pub async fn cut_power(&mut self) -> Result<()> {
        let first = self.first_process()?;
        // It takes all the others with it, and then what started it ends.
        send_signal("KILL", first)?;
        let mut process = self.process.take().context("it does not run")?;
        wait::until("the machine to be off", PATIENCE, async || Ok(Seen::from_option(process.ended(), "it runs"))).await?;
        Ok(())
    }

    fn first_process(&self) -> Result<u32> {
        let process = self.process.as_ref().context("it does not run")?;
        let output = std::process::Command::new("pgrep").arg("-P").arg(process.pid().to_string()).output().context("pgrep")?;
        String::from_utf8_lossy(&output.stdout).trim().parse().with_context(|| format!("{} has no first process", self.name))
    }

    /// What a command prints in there that must succeed.
    pub async fn tell(&self, command: &[&str]) -> Result<String> {
        let first = self.first_process()?;
        let mut entered = Command::new("nsenter");
        entered
            .args(["--target", &first.to_string(), "--mount", "--uts", "--ipc", "--net", "--pid", "--"])
            .args(command)
            .kill_on_drop(true);
        let output = timeout(Duration::from_secs(30), entered.output()).await.with_context(|| format!("{command:?} hangs"))??;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(output.status.success(), "{command:?}: {}: {text} {}", output.status, String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }

    /// Puts a file there, whether it runs or not.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let path = self.path(path);
        fs::create_dir_all(path.parent().context("a folder")?).with_context(|| format!("make the folder of {}", path.display()))?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Takes a file away that is there, whether it runs or not.
    pub fn remove(&self, path: &str) -> Result<()> {
        fs::remove_file(self.path(path)).with_context(|| format!("remove {path}"))
    }

    /// The content of a file.
    pub fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.path(path)).with_context(|| format!("read {path}"))
    }

    /// Where a link leads; None where there is none.
    pub fn link(&self, path: &str) -> Option<PathBuf> {
        fs::read_link(self.path(path)).ok()
    }

    /// Its owner and permissions, such as `0:0 0600`; None where it is not.
    pub fn rights(&self, path: &str) -> Option<String> {
        let file = fs::metadata(self.path(path)).ok()?;
        Some(format!("{}:{} {:04o}", file.uid(), file.gid(), file.permissions().mode() & 0o7777))
    }

    /// What would help to find out why it is not as it should be.
    pub fn last_words(&self) -> String {
        let console = self.process.as_ref().map(Process::tail).unwrap_or_default();
        let log = self.read("/var/log/kubernetes-bootstrap.log").unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("--- console of {}\n{console}\n--- its log\n{}", self.name, lines[lines.len().saturating_sub(30)..].join("\n"))
    }

    fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // What started it would leave it running. There is nothing to do about errors: all ends with this program.
        if let Ok(first) = self.first_process() {
            let _ = send_signal("KILL", first);
        }
    }
}

async fn run(command: &mut Command) -> Result<()> {
    let name = format!("{:?}", command.as_std());
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(Duration::from_secs(120), output).await.with_context(|| format!("{name} hangs"))?.context(name.clone())?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // Ignition's last word is all that it was given.
    let (errors, others): (Vec<&str>, Vec<&str>) = said.lines().partition(|line| line.starts_with("CRITICAL"));
    let last = &others[others.len().saturating_sub(10)..];
    ensure!(output.status.success(), "{name}: {}\n{}", errors.join("\n"), last.join("\n"));
    Ok(())
}
