//! Octavia: the load balancers that a cluster's services made.

use serde::Deserialize;

use crate::error::CloudError;
use crate::json::or_default;
use crate::page;
use crate::quota::Limit;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

/// Load balancer calls of a session.
#[derive(Clone, Debug)]
pub struct Octavia(Session);

/// A load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct LoadBalancer {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub description: String,
    #[serde(default)]
    pub project_id: Option<String>,
    #[serde(default)]
    pub vip_address: Option<String>,
    #[serde(default)]
    pub vip_port_id: Option<String>,
    #[serde(default)]
    pub vip_subnet_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub provisioning_status: String,
    #[serde(default, deserialize_with = "or_default")]
    pub operating_status: String,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
}

/// A member of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PoolMember {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub operating_status: String,
}

impl PoolMember {
    /// Whether Octavia sends nobody there: its monitor has found it dead, or it was switched off. Without a monitor nobody knows.
    pub fn is_down(&self) -> bool {
        ["ERROR", "OFFLINE"].contains(&self.operating_status.as_str())
    }
}

/// Which load balancers to list. Name and description must be exactly so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancerFilter {
    pub name: Option<String>,
    pub description: Option<String>,
    pub project_id: Option<String>,
    /// All of them must be there.
    pub tags: Vec<String>,
}

#[derive(Deserialize)]
struct LoadBalancerAnswer {
    loadbalancer: LoadBalancer,
}

#[derive(Deserialize)]
struct QuotaAnswer {
    quota: Quota,
}

#[derive(Deserialize)]
struct Quota {
    /// Null where the project has the default, which this answer does not tell.
    #[serde(default)]
    load_balancer: Option<i64>,
}

impl Session {
    /// Load balancer calls with this session.
    pub fn octavia(&self) -> Octavia {
        Octavia(self.clone())
    }
}

impl Octavia {
    /// How many load balancers a project may have, and has: the session's own. Octavia does not count them, so they are listed where there is
    /// a limit.
    pub async fn limit(&self, project: &str) -> Result<Limit, CloudError> {
        let request = Request::get(Service::LoadBalancer, "quota_show", ["lbaas", "quotas", project]);
        let told = self.0.fetch::<QuotaAnswer>(request).await?.quota.load_balancer.unwrap_or(-1);
        if told < 0 {
            return Ok(Limit::default());
        }
        let filter = LoadBalancerFilter { project_id: Some(project.to_owned()), ..LoadBalancerFilter::default() };
        Ok(Limit::told(told, i64::try_from(self.load_balancers(&filter).await?.len()).unwrap_or(i64::MAX)))
    }

    /// The load balancers that match.
    pub async fn load_balancers(&self, filter: &LoadBalancerFilter) -> Result<Vec<LoadBalancer>, CloudError> {
        page::all(&self.0, "loadbalancers", || {
            Request::get(Service::LoadBalancer, "load_balancer_list", ["lbaas", "loadbalancers"])
                .query_if("name", filter.name.clone())
                .query_if("description", filter.description.clone())
                .query_if("project_id", filter.project_id.clone())
                .tags(&filter.tags)
        })
        .await
    }

    /// The load balancer of that id.
    pub async fn load_balancer(&self, id: &str) -> Result<Option<LoadBalancer>, CloudError> {
        let request = Request::get(Service::LoadBalancer, "load_balancer_show", ["lbaas", "loadbalancers", id]);
        Ok(self.0.find::<LoadBalancerAnswer>(request).await?.map(|answer| answer.loadbalancer))
    }

    /// The members of a pool; none where there is no such pool.
    pub async fn pool_members(&self, pool: &str) -> Result<Vec<PoolMember>, CloudError> {
        let path = ["lbaas", "pools", pool, "members"];
        let listed = page::all(&self.0, "members", || Request::get(Service::LoadBalancer, "pool_member_list", path)).await;
        match listed {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            other => other,
        }
    }

    /// Takes a member out of a pool; false when it was not in it. A load balancer that is being changed answers 409.
    pub async fn delete_pool_member(&self, pool: &str, member: &str) -> Result<bool, CloudError> {
        let path = ["lbaas", "pools", pool, "members", member];
        self.0.remove(Request::delete(Service::LoadBalancer, "pool_member_delete", path)).await
    }

    /// Begins to delete the load balancer, with all that hangs on it if `cascade`; false when there was none.
    /// One that is being changed answers 409.
    pub async fn delete_load_balancer(&self, id: &str, cascade: bool) -> Result<bool, CloudError> {
        let request = Request::delete(Service::LoadBalancer, "load_balancer_delete", ["lbaas", "loadbalancers", id])
            .query_if("cascade", cascade.then_some("true"));
        self.0.remove(request).await
    }
}
