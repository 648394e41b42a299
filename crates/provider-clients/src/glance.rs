//! Glance: images and the properties that choose a driver.

use serde::Deserialize;

use crate::error::CloudError;
use crate::json::or_default;
use crate::page;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

/// Image calls of a session.
#[derive(Clone, Debug)]
pub struct Glance(Session);

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Image {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    #[serde(default, deserialize_with = "or_default")]
    pub visibility: String,
    #[serde(default)]
    pub owner: Option<String>,
    #[serde(default)]
    pub os_distro: Option<String>,
    #[serde(default)]
    pub magnum_driver: Option<String>,
    /// The version of Kubernetes that it is made for, where its maker says one.
    #[serde(default)]
    pub kube_version: Option<String>,
    /// GiB a node's disk must have, as its owner says.
    #[serde(default, deserialize_with = "or_default")]
    pub min_disk: u64,
    /// MiB a node must have.
    #[serde(default, deserialize_with = "or_default")]
    pub min_ram: u64,
    /// Bytes of it as it is kept.
    #[serde(default, deserialize_with = "or_default")]
    pub size: u64,
    /// Bytes of the disk that is in it; 0 where Glance does not know.
    #[serde(default, deserialize_with = "or_default")]
    pub virtual_size: u64,
}

impl Image {
    /// GiB that a disk must have for it: for less, Nova and Cinder make none.
    pub fn disk(&self) -> u64 {
        self.min_disk.max(self.size.max(self.virtual_size).div_ceil(1 << 30))
    }
}

impl Session {
    /// Image calls with this session.
    pub fn glance(&self) -> Glance {
        Glance(self.clone())
    }
}

impl Glance {
    /// The image that has this id, or else all that have this name. An id that the caller may not see is an error with status 403, if
    /// Glance says so.
    pub async fn find_images(&self, name_or_id: &str) -> Result<Vec<Image>, CloudError> {
        // Glance makes only UUIDs, and shows community images by id only.
        if uuid::Uuid::try_parse(name_or_id).is_ok() {
            let request = Request::get(Service::Image, "image_show", ["images", name_or_id]);
            if let Some(image) = self.0.find(request).await? {
                return Ok(vec![image]);
            }
        }
        let request = || Request::get(Service::Image, "image_list", ["images"]).query("name", name_or_id);
        let mut named: Vec<Image> = page::all(&self.0, "images", request).await?;
        // `name` also understands operators (`in:a,b`), so what comes back is checked.
        named.retain(|image| image.name == name_or_id);
        Ok(named)
    }
}
