//! Cinder: volume types, and the volumes that Kubernetes made.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::CloudError;
use crate::json::or_default;
use crate::page;
use crate::quota::{Limit, LimitsAnswer};
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

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Volume {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: BTreeMap<String, String>,
}

/// What of Cinder's a project may have, whatever the volumes' types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeLimits {
    pub volumes: Limit,
    /// GiB.
    pub gigabytes: Limit,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AbsoluteLimits {
    max_total_volumes: i64,
    total_volumes_used: i64,
    max_total_volume_gigabytes: i64,
    total_gigabytes_used: i64,
}

#[derive(Deserialize)]
struct VolumeAnswer {
    volume: Volume,
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

    /// What the project may have, and what of it is in use.
    pub async fn limits(&self) -> Result<VolumeLimits, CloudError> {
        let answer: LimitsAnswer<AbsoluteLimits> = self.0.fetch(Request::get(Service::BlockStorage, "limits_show", ["limits"])).await?;
        let told = answer.limits.absolute;
        Ok(VolumeLimits {
            volumes: Limit::told(told.max_total_volumes, told.total_volumes_used),
            gigabytes: Limit::told(told.max_total_volume_gigabytes, told.total_gigabytes_used),
        })
    }

    /// The volumes of the session's project or, for administrators, of the project of this id.
    pub async fn volumes(&self, project: Option<&str>) -> Result<Vec<Volume>, CloudError> {
        page::all(&self.0, "volumes", || {
            Request::get(Service::BlockStorage, "volume_list", ["volumes", "detail"])
                .query_if("all_tenants", project.map(|_| "1"))
                .query_if("project_id", project)
        })
        .await
    }

    /// The volume of that id.
    pub async fn volume(&self, id: &str) -> Result<Option<Volume>, CloudError> {
        let request = Request::get(Service::BlockStorage, "volume_show", ["volumes", id]);
        Ok(self.0.find::<VolumeAnswer>(request).await?.map(|answer| answer.volume))
    }

    /// Begins to delete the volume; false when there was none. One that is attached to a server answers 400.
    pub async fn delete_volume(&self, id: &str) -> Result<bool, CloudError> {
        self.0.remove(Request::delete(Service::BlockStorage, "volume_delete", ["volumes", id])).await
    }
}
