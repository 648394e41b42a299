//! Secrets of a world: which there are, where each rightly is, and that none stands anywhere else.
//!
//! What goes out is searched (logs, answers, notifications, traces, metrics), and so is what is kept (rows, and what stacks are given).

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;
use cloud_simulator::{SERVICE_PASSWORD, StackView};
use model::id::ClusterId;
use model::seal::Sealer;
use model::store::history::{self, Shown};
use model::store::{Conn, Page, Scope, SortDir, certificate, cluster as clusters, event, notification};
use secrecy::ExposeSecret;

use super::World;
use crate::heard::Heard;
use crate::secrets::{
    BOOTSTRAP_TOKEN, CLIENT_KEY, ENCRYPTED_KEY, ETCD_KEY, KEY, OWNER_PASSWORD, PASSPHRASE, Search, Secrets, TRUSTEE_PASSWORD,
};

/// Where secrets rightly are that stacks are given, by parameter. The last ones are of upstream's templates.
const GIVEN: [(&str, &[&str]); 6] = [
    ("master_user_data", &[KEY, BOOTSTRAP_TOKEN, TRUSTEE_PASSWORD]),
    ("worker_user_data", &[BOOTSTRAP_TOKEN]),
    ("secrets_key", &[ETCD_KEY]),
    ("trustee_password", &[TRUSTEE_PASSWORD]),
    ("kube_service_account_key", &["a service account key"]),
    ("grafana_admin_passwd", &["a password"]),
];

/// Where they rightly are in rows.
const STORED: [((&str, &str), &str); 3] = [
    (("cluster", "trustee_password"), TRUSTEE_PASSWORD),
    (("x509keypair", "private_key"), ENCRYPTED_KEY),
    (("x509keypair", "private_key_passphrase"), PASSPHRASE),
];

/// Where the numbers are shown, by the options that say it.
const METRICS: [&str; 2] = ["OS_METRICS__API_PORT", "OS_METRICS__CONDUCTOR_PORT"];

/// Of thousands, so many stacks and clusters are looked at: the newest.
const FEW: usize = 16;
/// And so many rows of each kind.
const ROWS: u32 = 2_000;

impl World {
    /// Remembers what stacks were given that may stand nowhere else.
    pub fn keep_secrets_of_stacks(&self) {
        let mut secrets = self.secrets();
        for stack in self.newest_stacks() {
            for (name, value) in &stack.parameters {
                let Some(text) = value.as_str() else { continue };
                match name.as_str() {
                    "secrets_key" => secrets.keep(text, ETCD_KEY),
                    "trustee_password" => secrets.keep(text, TRUSTEE_PASSWORD),
                    name if name.ends_with("user_data") => secrets.keep_first_boot(text),
                    name if name.contains("passw") => secrets.keep(text, "a password"),
                    _ if text.contains("PRIVATE KEY") => secrets.keep_key(text, KEY),
                    _ => {}
                }
            }
        }
    }

    /// Also those that are gone.
    fn newest_stacks(&self) -> Vec<StackView> {
        let mut stacks = self.cloud.stacks_ever();
        stacks.drain(..stacks.len().saturating_sub(FEW));
        stacks
    }

    /// Remembers what rows hold, and what is made of it; of sealed values nothing.
    pub async fn keep_secrets_of_rows(&self) -> Result<()> {
        let store = self.store()?;
        for id in self.clusters_ever().await?.iter().take(FEW) {
            let row = store.read(async |conn: &mut Conn| clusters::find(conn, &Scope::All, id).await).await?;
            let Some(row) = row else { continue };
            let owner = format!("{}_{}_stacks", row.uuid, row.project());
            self.keep_secret(Sealer::new(&SERVICE_PASSWORD.into()).password(&owner).expose_secret(), OWNER_PASSWORD);
            if let Ok(Some(password)) = row.trustee_password(store.vault()) {
                self.keep_secret(password.expose_secret(), TRUSTEE_PASSWORD);
            }
            let client = row.references().client;
            for reference in &row.references().all() {
                // Kept elsewhere than in the database, or sealed.
                let pair = store.read(async |conn: &mut Conn| certificate::fetch(conn, store.vault(), reference).await).await;
                let Ok(pair) = pair else { continue };
                if let Some(passphrase) = &pair.private_key_passphrase {
                    self.keep_secret(passphrase.expose_secret(), PASSPHRASE);
                }
                if let Some(key) = &pair.private_key {
                    self.secrets().keep_key(key.expose_secret(), ENCRYPTED_KEY);
                }
                if let Ok(key) = pair.open().and_then(|opened| opened.key_pem()) {
                    let what = if client.as_deref() == Some(reference.as_str()) { CLIENT_KEY } else { KEY };
                    self.secrets().keep_key(key.expose_secret(), what);
                }
            }
        }
        Ok(())
    }

    /// Remembers what Barbican holds.
    pub fn keep_secrets_of_barbican(&self) {
        for payload in self.cloud.barbican_payloads() {
            if payload.contains("PRIVATE KEY") {
                self.secrets().keep_key(&payload, ENCRYPTED_KEY);
            } else if !payload.contains("CERTIFICATE") {
                self.keep_secret(&payload, PASSPHRASE);
            }
        }
    }

    /// The clusters that anything was ever asked of, by the newest operation.
    async fn clusters_ever(&self) -> Result<Vec<ClusterId>> {
        let mut ids = Vec::new();
        for operation in self.operations().await? {
            let id = operation.cluster_id();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// The newest operations first.
    async fn operations(&self) -> Result<Vec<model::operation::Operation>> {
        let page = &Page { limit: ROWS.into(), marker: None, sort_key: "id".to_owned(), sort_dir: SortDir::Desc };
        Ok(self.store()?.read(async |conn: &mut Conn| history::page(conn, &Scope::All, &Shown::default(), page).await).await?)
    }

    /// Where one of these secrets stands and may not.
    pub async fn leaks(&self, secrets: &Secrets) -> Result<Vec<String>> {
        let mut search = secrets.search();
        self.hear_metrics().await;
        self.look_at_what_is_kept(&mut search).await?;
        self.look_at_what_was_told(&mut search);
        Ok(search.leaks())
    }

    /// None of the secrets that were remembered is in these texts.
    pub fn no_secret_in<'a>(&self, place: &str, texts: impl Iterator<Item = &'a str>) -> Result<()> {
        let mut search = self.secrets().search();
        for text in texts {
            search.look(place, text.as_bytes(), &[]);
        }
        search.end()
    }

    /// None of them is in rows, or in what stacks were given, where it may not be.
    pub(super) async fn no_secret_in_what_is_kept(&self) -> Result<()> {
        let mut search = self.secrets().search();
        self.look_at_what_is_kept(&mut search).await?;
        search.end()
    }

    /// None of them was told anybody.
    pub(super) fn no_secret_in_what_was_told(&self) -> Result<()> {
        let mut search = self.secrets().search();
        self.look_at_what_was_told(&mut search);
        search.end()
    }

    /// Keeps what the processes that are there show of their numbers now.
    pub(super) async fn hear_metrics(&self) {
        for port in METRICS.into_iter().filter_map(|option| self.environment.get(option)) {
            if let Ok(answer) = self.http.get(format!("http://127.0.0.1:{port}/metrics")).send().await
                && let Ok(text) = answer.text().await
            {
                self.heard.keep("what is shown of numbers", &text);
            }
        }
    }

    fn look_at_what_was_told(&self, search: &mut Search) {
        for process in &self.processes {
            search.look(&format!("the log of {}", process.name()), process.log().as_bytes(), &[]);
        }
        let listeners = self.environment.values().flat_map(|value| value.split(',')).filter_map(Heard::by);
        for heard in listeners.chain([self.heard.clone()]) {
            for (what, text) in heard.texts() {
                search.look(what, text.as_bytes(), &[]);
            }
        }
    }

    async fn look_at_what_is_kept(&self, search: &mut Search) -> Result<()> {
        for stack in self.newest_stacks() {
            for (name, value) in &stack.parameters {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let rightly = GIVEN.iter().find(|(given, _)| given == name).map_or(&[][..], |(_, what)| *what);
                search.look(&format!("the parameter {name} of stack {}", stack.name), text.as_bytes(), rightly);
            }
        }
        match &self.database {
            Some(database) => {
                for ((table, column), text) in database.texts(ROWS).await? {
                    let rightly = STORED.iter().find(|(place, _)| *place == (&*table, &*column)).map(|(_, what)| *what);
                    search.look(&format!("the column {column} of {table}"), &text, rightly.as_slice());
                }
            }
            None => self.look_at_sqlite(search).await?,
        }
        Ok(())
    }

    /// The file as it lies on the disk, where each table's texts may stand; and what is told of it, where they may not.
    async fn look_at_sqlite(&self, search: &mut Search) -> Result<()> {
        let rightly = STORED.map(|(_, what)| what);
        for end in ["", "-wal"] {
            let file = fs::read(format!("{}{end}", self.sqlite().display())).unwrap_or_default();
            search.look("the database's file", &file, &rightly);
        }
        let mut clusters = BTreeSet::new();
        for operation in self.operations().await? {
            let told = [operation.waiting_for.as_deref(), operation.outcome_reason.as_deref(), operation.cloud_error.as_deref()];
            for text in told.into_iter().flatten().chain([operation.payload.as_str(), operation.step.as_str()]) {
                search.look("an operation", text.as_bytes(), &[]);
            }
            clusters.insert(operation.cluster_id());
        }
        let store = self.store()?;
        for id in clusters.iter().take(FEW) {
            let events = store.read(async |conn: &mut Conn| event::of_cluster(conn, id, 0, ROWS.into()).await).await?;
            for event in events {
                let text = format!("{} {} {}", event.cluster_uuid, event.message, event.details.unwrap_or_default());
                search.look("an event of an operation", text.as_bytes(), &[]);
            }
        }
        for waiting in store.read(async |conn: &mut Conn| notification::first(conn, ROWS.into()).await).await? {
            search.look("a notification that waits", waiting.body.as_bytes(), &[]);
        }
        Ok(())
    }
}
