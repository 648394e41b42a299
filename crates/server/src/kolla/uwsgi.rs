//! `uwsgi <ini>`: newer releases of kolla-ansible start the API under uWSGI. This reads from that file what has a meaning for `magnum-api`
//! and becomes it; magnum.conf is read as usual, and what the file says wins.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{Doing, Places, Trouble};

const CONFIG: &str = "/etc/magnum/magnum.conf";

/// What the file says of the API.
#[derive(Debug, Default, PartialEq, Eq)]
struct Server {
    listen: Option<Listen>,
    processes: Option<u32>,
}

#[derive(Debug, PartialEq, Eq)]
struct Listen {
    host: String,
    port: u16,
    /// Certificate and key, as files.
    tls: Option<(String, String)>,
}

/// Becomes `magnum-api`; returns only with an error.
pub(super) fn become_api(places: &Places, ini: &str) -> Result<(), Trouble> {
    let text = fs::read_to_string(places.at(ini)).doing(|| format!("read {ini}"))?;
    let server = parse(&text).map_err(|rule| Trouble::Wrong(format!("{ini}: {rule}")))?;
    let mut command = Command::new("magnum-api");
    command.args(["--config-file", CONFIG]).envs(environment(&server));
    Err(Trouble::Failed { what: "start magnum-api".to_owned(), error: command.exec() })
}

/// The options of magnum.conf that say the same.
fn environment(server: &Server) -> Vec<(&'static str, String)> {
    let mut set = Vec::new();
    if let Some(Listen { host, port, tls }) = &server.listen {
        set.extend([("OS_API__HOST", host.clone()), ("OS_API__PORT", port.to_string())]);
        set.push(("OS_API__ENABLED_SSL", tls.is_some().to_string()));
        if let Some((certificate, key)) = tls {
            set.extend([("OS_API__SSL_CERT_FILE", certificate.clone()), ("OS_API__SSL_KEY_FILE", key.clone())]);
        }
    }
    set.extend(server.processes.map(|processes| ("OS_API__WORKERS", processes.to_string())));
    set
}

/// Reads the section `[uwsgi]`. Options without a meaning here are overlooked; those with one must make sense.
fn parse(text: &str) -> Result<Server, String> {
    let mut server = Server::default();
    let mut is_ours = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        if let Some(section) = line.strip_prefix('[') {
            is_ours = section.trim_end_matches(']') == "uwsgi";
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| is_ours) else { continue };
        let value = value.trim();
        match key.trim() {
            "http" | "http-socket" => server.listen = Some(address(value).map(|(host, port)| Listen { host, port, tls: None })?),
            "https" | "https-socket" => {
                let parts: Vec<&str> = value.split(',').collect();
                let [at, certificate, key, ..] = parts[..] else {
                    return Err(format!("https = {value}: it must name address, certificate and key"));
                };
                let (host, port) = address(at)?;
                server.listen = Some(Listen { host, port, tls: Some((certificate.to_owned(), key.to_owned())) });
            }
            "processes" | "workers" => {
                server.processes = Some(value.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("processes = {value}: no number"))?);
            }
            _ => {}
        }
    }
    Ok(server)
}

/// `host:port`, `[v6]:port` or `:port`.
fn address(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("{text:?} is no address with a port");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    host.parse::<std::net::IpAddr>().map_err(|_| wrong())?;
    Ok((host.to_owned(), port.parse().map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kolla_writes_becomes_options_of_the_api() {
        let ini = "[uwsgi]\nadd-header = Connection: close\nhttp = 192.0.2.7:9511\nmaster = true\nmodule = magnum.wsgi.api:application\n\
                   processes = 5\nthreads = 1\nuid = magnum\n[other]\nhttp = 1.1.1.1:1\n";
        let set = environment(&parse(ini).expect("a good file"));
        let wanted = [("OS_API__HOST", "192.0.2.7"), ("OS_API__PORT", "9511"), ("OS_API__ENABLED_SSL", "false"), ("OS_API__WORKERS", "5")];
        assert_eq!(set, wanted.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn with_tls_certificate_and_key_are_handed_on() {
        let ini = "[uwsgi]\nhttps = [2001:db8::7]:9511,/etc/magnum/certs/magnum-cert.pem,/etc/magnum/certs/magnum-key.pem\n";
        let set = environment(&parse(ini).expect("a good file"));
        assert!(set.contains(&("OS_API__HOST", "2001:db8::7".to_owned())), "{set:?}");
        assert!(set.contains(&("OS_API__SSL_KEY_FILE", "/etc/magnum/certs/magnum-key.pem".to_owned())), "{set:?}");
        assert!(set.contains(&("OS_API__ENABLED_SSL", "true".to_owned())), "{set:?}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_option() {
        for (line, wanted) in [("http = nine", "no address"), ("https = 1.2.3.4:5,cert", "must name"), ("processes = 0", "no number")] {
            let error = parse(&format!("[uwsgi]\n{line}\n")).expect_err(line);
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }
}
