//! Queries on `x509keypair`, the certificate store.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use crate::certificate::{NewKeypair, StoredKeypair};
use crate::id::{KeypairId, ProjectId, UserId};
use crate::schema::x509keypair;
use crate::seal::vault::{Column, Stored, Vault};
use crate::time::{now, whole_seconds};

/// Stores a key pair, its secrets as the vault has them stored.
pub async fn insert(
    conn: &mut Conn,
    vault: &Vault,
    id: &KeypairId,
    (project, user): (&ProjectId, &UserId),
    pair: &NewKeypair,
) -> Result<(), StoreError> {
    let key = vault.store(Column::PrivateKey, id.as_str(), &pair.encrypted_key)?;
    let passphrase = vault.store(Column::Passphrase, id.as_str(), &pair.passphrase)?;
    let row = (
        x509keypair::created_at.eq(Some(whole_seconds(now()))),
        x509keypair::uuid.eq(id.as_str()),
        x509keypair::certificate.eq(&pair.certificate),
        x509keypair::private_key.eq(&key),
        x509keypair::private_key_passphrase.eq(&passphrase),
        x509keypair::project_id.eq(&project.0),
        x509keypair::user_id.eq(&user.0),
    );
    on_conn!(conn, |c| diesel::insert_into(x509keypair::table).values(row).execute(&mut **c).await)?;
    Ok(())
}

/// The key pair of a reference, whichever form its secrets are stored in.
pub async fn fetch(conn: &mut Conn, vault: &Vault, id: &KeypairId) -> Result<StoredKeypair, StoreError> {
    let row: Option<Row> = on_conn!(conn, |c| {
        x509keypair::table.select(Row::as_select()).filter(x509keypair::uuid.eq(id.as_str())).first(&mut **c).await.optional()
    })?;
    let row = row.ok_or_else(|| StoreError::NotFound { what: "key pair", key: id.to_string() })?;
    let open = |column, stored: Option<Stored>| stored.map(|stored| vault.open(column, &row.uuid, &stored)).transpose();
    let (private_key, private_key_passphrase) =
        (open(Column::PrivateKey, row.private_key)?, open(Column::Passphrase, row.private_key_passphrase)?);
    Ok(StoredKeypair { reference: row.uuid, certificate: row.certificate, private_key, private_key_passphrase })
}

/// What there is to know of a pair.
#[derive(Queryable, Selectable)]
#[diesel(table_name = x509keypair)]
struct Row {
    uuid: String,
    certificate: Option<String>,
    private_key: Option<Stored>,
    private_key_passphrase: Option<Stored>,
}

/// Removes key pairs; those that are not there are no error.
pub async fn delete(conn: &mut Conn, ids: &[KeypairId]) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = ids.iter().map(KeypairId::as_str).collect();
    on_conn!(conn, |c| diesel::delete(x509keypair::table.filter(x509keypair::uuid.eq_any(ids))).execute(&mut **c).await)?;
    Ok(())
}
