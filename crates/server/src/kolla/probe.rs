//! The health checks that kolla-ansible lets the container engine run inside the container.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use url::Url;

use super::{Doing, Places, Trouble};

/// As kolla's own check has it.
const LIMIT: Duration = Duration::from_secs(10);
/// Enough for every head of an answer that is looked at.
const HEAD: usize = 16 * 1024;

/// Asks a URL; what came is told. The certificate is not verified, as in kolla's check: it is the process that is asked after.
///
/// # Errors
/// Without an answer within ten seconds, or with a status of 400 and more.
pub(super) fn answers(url: &str) -> Result<String, Trouble> {
    let wrong = |what: String| Trouble::Wrong(format!("{url}: {what}"));
    let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
    let begun = Instant::now();
    let head = ask(&parsed, begun + LIMIT).map_err(|error| wrong(error.to_string()))?;
    let status: u16 = head.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(|| wrong("no HTTP answer".to_owned()))?;
    if status >= 400 {
        return Err(wrong(format!("answered {status}")));
    }
    Ok(format!("{status} {url} {:.3} seconds", begun.elapsed().as_secs_f64()))
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// The first line of the answer.
fn ask(url: &Url, deadline: Instant) -> std::io::Result<String> {
    let invalid = |what: &str| std::io::Error::new(std::io::ErrorKind::InvalidInput, what.to_owned());
    let left = || deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time");
    let host = url.host_str().ok_or_else(|| invalid("no host"))?;
    let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = url.port_or_known_default().ok_or_else(|| invalid("no port"))?;
    let address = (name.as_str(), port).to_socket_addrs()?.next().ok_or_else(|| invalid("the host has no address"))?;
    let tcp = TcpStream::connect_timeout(&address, left().ok_or_else(late)?)?;
    let timing = tcp.try_clone()?;
    timing.set_write_timeout(Some(left().ok_or_else(late)?))?;
    timing.set_read_timeout(Some(left().ok_or_else(late)?))?;
    let mut stream: Box<dyn Stream> = match url.scheme() {
        "http" => Box::new(tcp),
        "https" => Box::new(StreamOwned::new(tls(name)?, tcp)),
        _ => return Err(invalid("neither http nor https")),
    };
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: healthcheck\r\nAccept: */*\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let (mut seen, mut part) = (Vec::new(), [0; 1024]);
    while !seen.windows(2).any(|two| two == b"\r\n") {
        timing.set_read_timeout(Some(left().ok_or_else(late)?))?;
        match stream.read(&mut part)? {
            0 => return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "closed without an answer")),
            read => seen.extend_from_slice(&part[..read]),
        }
        if seen.len() > HEAD {
            return Err(invalid("no HTTP answer"));
        }
    }
    Ok(String::from_utf8_lossy(&seen).lines().next().unwrap_or_default().to_owned())
}

fn tls(name: String) -> std::io::Result<ClientConnection> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
    let name = ServerName::try_from(name).map_err(std::io::Error::other)?;
    ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)
}

/// Believes every certificate, but not every signature.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether a process whose command line holds `name` has an established TCP connection from or to `port`.
///
/// # Errors
/// When there is no such process, or it has no such connection.
pub(super) fn connected(places: &Places, name: &str, port: &str) -> Result<(), Trouble> {
    let port: u16 = port.parse().map_err(|_| Trouble::Wrong(format!("{port:?} is no port")))?;
    let mut inodes = HashSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        match fs::read_to_string(places.at(table)) {
            Ok(text) => inodes.extend(text.lines().filter_map(|line| established(line, port))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => drop(other.doing(|| format!("read {table}"))?),
        }
    }
    let own = std::process::id();
    let is_pid = |name: &std::ffi::OsString| name.to_str().and_then(|name| name.parse::<u32>().ok()).filter(|pid| *pid != own);
    let mut count = 0;
    for pid in super::install::list(&places.at("/proc"))?.iter().filter_map(is_pid) {
        let process = places.at(format!("/proc/{pid}"));
        let Ok(line) = fs::read(process.join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // The shell in which the engine runs this check has the name in its command line, too.
        if !line.contains(name) || line.contains("healthcheck_port") {
            continue;
        }
        count += 1;
        let handles = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let sockets = handles.filter_map(|handle| fs::read_link(handle.path()).ok());
        if sockets.filter_map(|to| socket(&to.to_string_lossy())).any(|inode| inodes.contains(&inode)) {
            return Ok(());
        }
    }
    Err(Trouble::Wrong(match count {
        0 => format!("no process {name}"),
        _ => format!("{name} has no connection from or to port {port}"),
    }))
}

/// `socket:[12345]`
fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The inode of an established connection from or to a port, of a line of the kernel's table.
fn established(line: &str, port: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port_of = |field: &str| u16::from_str_radix(field.rsplit(':').next()?, 16).ok();
    let ports = [port_of(fields.get(1)?), port_of(fields.get(2)?)];
    (*fields.get(3)? == "01" && ports.contains(&Some(port))).then(|| fields.get(9)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answered_with(answer: &'static str) -> Result<String, Trouble> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("address").port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let (mut request, mut part) = (Vec::new(), [0; 1024]);
            while !request.ends_with(b"\r\n\r\n") {
                let read = stream.read(&mut part).expect("a request");
                assert!(read > 0, "the request breaks off");
                request.extend_from_slice(&part[..read]);
            }
            stream.write_all(answer.as_bytes()).expect("answer");
            String::from_utf8_lossy(&request).into_owned()
        });
        let seen = answers(&format!("http://127.0.0.1:{port}/healthcheck?a=b"));
        let request = server.join().expect("the server");
        assert!(request.starts_with("GET /healthcheck?a=b HTTP/1.1\r\n"), "{request}");
        seen
    }

    #[test]
    fn an_answer_below_400_is_health() {
        for (answer, healthy) in
            [("HTTP/1.1 200 OK\r\n\r\n", true), ("HTTP/1.1 302 Found\r\n\r\n", true), ("HTTP/1.1 503 x\r\n\r\n", false)]
        {
            let seen = answered_with(answer);
            assert_eq!(seen.is_ok(), healthy, "{answer}: {seen:?}");
        }
        assert!(answered_with("SSH-2.0\r\n").is_err());
    }

    #[test]
    fn nobody_there_is_no_health() {
        let port = TcpListener::bind("127.0.0.1:0").expect("listen").local_addr().expect("address").port();
        assert!(answers(&format!("http://127.0.0.1:{port}/")).is_err());
        assert!(answers("ftp://127.0.0.1/").is_err());
    }

    #[test]
    fn a_connection_counts_when_a_process_of_that_name_holds_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("address").port();
        let root = tempfile::tempdir().expect("a folder");
        let places = Places::under(root.path());
        fs::create_dir_all(root.path().join("proc/net")).expect("proc");
        let process = root.path().join("proc/4711");
        fs::create_dir_all(process.join("fd")).expect("proc");
        fs::write(process.join("cmdline"), "magnum-conductor\0--config-file\0/etc/magnum/magnum.conf\0").expect("cmdline");
        let line =
            |state: &str| format!("  head\n   0: 0100007F:BEEF 0100007F:{port:04X} {state} 00000000:00000000 00:00000000 0 0 0 777 1\n");
        let table = root.path().join("proc/net/tcp");
        let says = |wanted: &str, seen: Result<(), Trouble>| assert!(seen.expect_err(wanted).to_string().contains(wanted));

        fs::write(&table, line("01")).expect("table");
        says("no process", connected(&places, "magnum-other", &port.to_string()));
        says("has no connection", connected(&places, "magnum-conductor", &port.to_string()));
        std::os::unix::fs::symlink("socket:[777]", process.join("fd/9")).expect("fd");
        connected(&places, "magnum-conductor", &port.to_string()).expect("connected");
        says("has no connection", connected(&places, "magnum-conductor", "1"));
        fs::write(&table, line("0A")).expect("table");
        says("has no connection", connected(&places, "magnum-conductor", &port.to_string()));
        says("is no port", connected(&places, "magnum-conductor", "amqp"));
    }
}
