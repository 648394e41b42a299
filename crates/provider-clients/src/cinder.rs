//! Cinder: volume types.

use serde::Deserialize;

use crate::error::CloudError;
use crate::json::or_default;
use crate::page;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

/// Block storage calls of a session.
#[derive(Clone, Debug)]
pub struct Cinder(Session);

/// A volume type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct VolumeType {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub is_public: bool,
}

impl Session {
    /// Block storage calls with this session.
    pub fn cinder(&self) -> Cinder {
        Cinder(self.clone())
    }
}

impl Cinder {
    /// The volume types the project may use.
    pub async fn volume_types(&self) -> Result<Vec<VolumeType>, CloudError> {
        page::all(&self.0, "volume_types", || Request::get(Service::BlockStorage, "volume_type_list", ["types"])).await
    }
}
