//! Queries on `x509keypair`, the certificate store.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use crate::certificate::{NewKeypair, StoredKeypair};
use crate::id::{KeypairId, ProjectId, UserId};
use crate::schema::x509keypair;
use crate::time::{now, whole_seconds};

/// Stores a key pair.
pub async fn insert(conn: &mut Conn, id: &KeypairId, project: &ProjectId, user: &UserId, pair: &NewKeypair) -> Result<(), StoreError> {
    let row = (
        x509keypair::created_at.eq(Some(whole_seconds(now()))),
        x509keypair::uuid.eq(id.as_str()),
        x509keypair::certificate.eq(&pair.certificate),
        x509keypair::private_key.eq(&pair.encrypted_key),
        x509keypair::private_key_passphrase.eq(&pair.passphrase),
        x509keypair::project_id.eq(&project.0),
        x509keypair::user_id.eq(&user.0),
    );
    on_conn!(conn, |c| diesel::insert_into(x509keypair::table).values(row).execute(&mut **c).await)?;
    Ok(())
}

/// The key pair of a reference.
pub async fn fetch(conn: &mut Conn, id: &KeypairId) -> Result<StoredKeypair, StoreError> {
    let row = on_conn!(conn, |c| {
        x509keypair::table.select(StoredKeypair::as_select()).filter(x509keypair::uuid.eq(id.as_str())).first(&mut **c).await.optional()
    })?;
    row.ok_or_else(|| StoreError::NotFound { what: "key pair", key: id.to_string() })
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
