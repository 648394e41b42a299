//! Inside a container: what kolla expects of an image, under the names by which kolla calls it.

use std::process::ExitCode;

fn main() -> ExitCode {
    server::kolla::main(std::env::args_os().collect())
}
