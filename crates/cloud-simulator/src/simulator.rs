//! The server: binds a port, runs actix on a thread of its own, and stops when its handle is dropped.
//!
//! A thread of its own, because the caller's runtime may be the single-threaded one of a test that blocks, or none that
//! lives as long as the simulator.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use actix_web::{
    dev::ServerHandle,
    web::{self, Data},
};

use crate::{
    cloud::Cloud,
    http, server,
    state::{Shared, World},
};

/// How a simulated cloud behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    pub bind: SocketAddr,
    /// How long a stack create or update takes.
    pub stack_duration: Duration,
    /// How long a stack delete takes.
    pub delete_duration: Duration,
    /// The `container-infra` endpoint of the catalogue; see [`Cloud::set_container_infra_url`].
    pub container_infra_url: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            stack_duration: Duration::from_secs(3),
            delete_duration: Duration::from_secs(1),
            container_infra_url: None,
        }
    }
}

/// A running simulated cloud. Dropping it closes the port.
pub struct Simulator {
    shared: Arc<Shared>,
    server: ServerHandle,
}

impl Simulator {
    /// Binds and starts. Works from any runtime.
    ///
    /// # Errors
    /// When the address cannot be bound or the server's thread cannot be started.
    pub async fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.bind)?;
        let mut address = listener.local_addr()?;
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        let world = World::new(options.stack_duration, options.delete_duration, options.container_infra_url);
        let shared = Arc::new(Shared::new(format!("http://{address}"), world));

        let data = Data::from(Arc::clone(&shared));
        let server = server::start("cloud-simulator", listener, move |app| {
            app.app_data(data.clone()).default_service(web::to(http::answer));
        })
        .await?;
        Ok(Self { shared, server })
    }

    /// Where Keystone is: `http://127.0.0.1:PORT/identity/v3`.
    pub fn auth_url(&self) -> String {
        format!("{}/identity/v3", self.shared.base)
    }

    /// The test's hold on the cloud behind the HTTP.
    pub fn cloud(&self) -> Cloud {
        Cloud::new(Arc::clone(&self.shared))
    }

    /// Stops and waits until the port is closed.
    pub async fn stop(self) {
        self.server.stop(false).await;
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        // The command is sent here and now; what is dropped is only the wait for it.
        drop(self.server.stop(false));
    }
}
