//! `POST /v1/clusters`: rules C-01 to C-26, then one transaction, then 202.

use model::cluster::CreateSpec;
use model::driver::DriverName;
use model::id::{ClusterId, OperationId, ProjectId};
use model::json::Labels;
use model::nodegroup::{DefaultNodegroup, DefaultRole};
use model::operation::{NewOperation, OperationKind, Payload};
use model::quota::{Demand, Resource};
use model::store::{Conn, End, StoreError, cluster, nodegroup, operation, quota, template};
use model::template::ClusterTemplate;

use crate::answer::Answer;
use crate::cloud_checks::{self, Wanted};
use crate::context::Context;
use crate::dry_run;
use crate::error::ApiError;
use crate::label;
use crate::microversion::ZERO_NODES;
use crate::policy::{Act, Allowed};
use crate::template::{boot_volume_size, greek_name};
use crate::view::cluster::CREATE;
use crate::view::schema::{self, Body};

/// A cluster that passed every check.
struct Checked {
    spec: CreateSpec,
    groups: [DefaultNodegroup; 2],
    /// The template that it was checked by, see [`ClusterTemplate::fingerprint`].
    made_of: String,
}

/// Accepts a new cluster.
pub async fn create(cx: Context) -> Result<Answer, ApiError> {
    let body = cx.read(&CREATE)?;
    let asked = Asked::of(&body);
    let origin = origin(&cx, &asked).await?;
    let driver = check_template(&cx, &asked, &origin)?;
    let allowed = cx.allow_own(Act::ClusterCreate)?;
    cloud_checks::must_delegate(&cx, Some(driver)).await?;
    let project = cx.caller.project_id.clone().ok_or_else(|| ApiError::Forbidden("A cluster needs a project-scoped token.".into()))?;
    let nodes = i64::from(asked.master_count) + i64::from(asked.node_count);
    let checked = match check(&cx, &body, asked, (&origin, driver), project.clone()).await {
        Ok(checked) => checked,
        Err(error) => {
            // Behind the quota in the order of the rules, which is asked for here only: what is accepted reserves it in any case.
            check_quota(&cx, nodes, &project).await?;
            return Err(error);
        }
    };
    if cx.is_dry_run {
        return rehearse(&cx, &checked).await;
    }
    // From here on the work must finish although the client may leave.
    let shared = cx.shared.clone();
    shared.to_the_end(async move { accept(&cx, &checked, allowed).await }).await
}

/// The plain fields of the request.
struct Asked {
    template: Option<String>,
    name: Option<String>,
    node_count: i32,
    master_count: i32,
    docker_volume_size: Option<i32>,
    labels: Option<Labels>,
    merge_labels: bool,
    /// Outer none: not given.
    create_timeout: Option<Option<i32>>,
}

impl Asked {
    fn of(body: &Body) -> Self {
        Self {
            template: body.owned("cluster_template_id"),
            name: body.owned("name"),
            node_count: body.integer("node_count").unwrap_or(1),
            master_count: body.integer("master_count").unwrap_or(1),
            docker_volume_size: body.integer("docker_volume_size"),
            labels: body.labels("labels").filter(|l| !l.0.is_empty()),
            merge_labels: body.boolean("merge_labels").unwrap_or(false),
            create_timeout: body.has("create_timeout").then(|| body.integer("create_timeout")),
        }
    }
}

/// The template that the request names (C-04, C-05): unknown is 400 up to 1.9 and 404 after.
async fn origin(cx: &Context, asked: &Asked) -> Result<ClusterTemplate, ApiError> {
    let visible = crate::template::usable(cx);
    let ident = asked.template.clone().unwrap_or_default();
    let (visible, ident) = (&visible, &ident);
    let found = cx.shared.store.read(async |conn: &mut Conn| match ident.parse::<i32>() {
        // A template whose name is a number cannot be used by it (upstream's rule); 007 is a name.
        Ok(number) if number.to_string() == *ident => template::fetch_by_number(conn, visible, number).await,
        _ => crate::template::find(conn, visible, ident).await,
    });
    let found = found.await;
    found.map_err(|error| match ApiError::from(error) {
        ApiError::NotFound { what, key } if cx.version < ZERO_NODES => ApiError::Invalid(format!("{what} {key} could not be found.")),
        other => other,
    })
}

/// Rules that need the template only (C-06 to C-09).
fn check_template(cx: &Context, asked: &Asked, origin: &ClusterTemplate) -> Result<DriverName, ApiError> {
    let disabled = &cx.shared.settings.disabled_drivers;
    let serving = crate::template::serving(origin, disabled)?;
    // The triple must be served, but it is the driver that the template names which makes the cluster.
    let named = origin.driver_name().filter(|d| !disabled.iter().any(|x| x == d.as_str()));
    let driver = named.unwrap_or(serving);
    if origin.docker_storage_driver.as_deref() == Some("devicemapper") {
        let size = asked.docker_volume_size.or(origin.docker_volume_size).unwrap_or(0);
        if size < 3 {
            return Err(ApiError::Invalid("docker_volume_size must be at least 3 GB with the storage driver devicemapper.".into()));
        }
    }
    if !driver.allows_masters(asked.master_count) {
        return Err(ApiError::Invalid(format!("master_count {} is not allowed: it must be an odd number.", asked.master_count)));
    }
    if asked.node_count == 0 && cx.version < ZERO_NODES {
        return Err(ApiError::Invalid(format!("Zero nodes (node_count 0) need a higher microversion: {ZERO_NODES} at least.")));
    }
    Ok(driver)
}

/// Whether the driver can make the pod network that the template names. A template may name one that it cannot: so may upstream's.
fn check_network_driver(driver: DriverName, origin: &ClusterTemplate) -> Result<(), ApiError> {
    match (driver.network_drivers(), origin.network_driver.as_deref()) {
        (Some(possible), Some(named)) if !possible.contains(&named) => Err(ApiError::Invalid(format!(
            "The network_driver of ClusterTemplate {} is {named}: with the driver {} it must be one of {}.",
            origin.uuid,
            driver.as_str(),
            possible.join(", ")
        ))),
        _ => Ok(()),
    }
}

/// Whether the quotas allow so many nodes as things are (C-11); what counts is the reservation in the end.
async fn check_quota(cx: &Context, nodes: i64, project: &ProjectId) -> Result<(), ApiError> {
    let demands = demands(cx, nodes);
    let (project, demands) = (project, &demands);
    Ok(cx.shared.store.read(async |conn: &mut Conn| quota::check(conn, project, demands).await).await?)
}

/// What a cluster of so many nodes takes of its project's quotas.
fn demands(cx: &Context, nodes: i64) -> [Demand; 2] {
    let settings = &cx.shared.settings;
    [
        Demand { resource: Resource::Cluster, count: 1, default: Some(settings.default_clusters_per_project), group: None },
        Demand { resource: Resource::Node, count: nodes, default: settings.default_nodes_per_project, group: None },
    ]
}

/// Smallest and largest size of the default worker group. In a cluster of the Heat driver that resizes itself it has both, for the autoscaler
/// finds the groups that are its own by their largest size. Upstream's holds neither against the size that is asked for: here they make room.
fn bounds_of_workers(driver: DriverName, labels: &Labels, node_count: i32) -> (Option<i32>, Option<i32>) {
    let number = |name: &str| labels.get(name).and_then(|n| n.trim().parse::<i32>().ok());
    let min = number("min_node_count");
    if driver != DriverName::K8sFedoraCoreosV1 || labels.flag("auto_scaling_enabled") != Some(true) {
        return (min, None);
    }
    // Zero is Magnum's word for no upper bound, and the autoscaler's for no nodes.
    let max = number("max_node_count").filter(|max| *max != 0).unwrap_or_else(|| node_count.saturating_add(1));
    // Not below one unless it was asked for: what the autoscaler has emptied it cannot always fill again.
    (Some(min.unwrap_or(1).min(node_count)), Some(max.max(node_count)))
}

/// Everything else (C-12 to C-26); the value that only these checks can make.
async fn check(
    cx: &Context,
    body: &Body,
    asked: Asked,
    (origin, driver): (&ClusterTemplate, DriverName),
    project: ProjectId,
) -> Result<Checked, ApiError> {
    if origin.is_hidden() && !cx.caller.is_admin {
        return Err(ApiError::Forbidden(format!("ClusterTemplate {} is hidden: it can not be used.", origin.uuid)));
    }
    let text = |key: &str, inherited: &Option<String>| body.owned(key).or_else(|| inherited.clone());
    let flag = |key: &str, inherited: bool, null: bool| body.boolean(key).unwrap_or(if body.is_null(key) { null } else { inherited });
    let labels = origin.labels().with(asked.labels, asked.merge_labels);
    schema::stored("labels", labels.column().len())?;
    let note = label::check(cx, driver, &labels)?;
    label::check_place(cx, driver, &labels, Some(&project))?;
    let flavor = text("flavor_id", &origin.flavor_id);
    let master_flavor = text("master_flavor_id", &origin.master_flavor_id);
    let keypair = text("keypair", &origin.keypair_id);
    let fixed_network = text("fixed_network", &origin.fixed_network);
    let fixed_subnet = text("fixed_subnet", &origin.fixed_subnet);
    let floating_ip_enabled = flag("floating_ip_enabled", origin.floating_ip_enabled.unwrap_or(true), true);
    let master_lb_enabled = flag("master_lb_enabled", origin.master_lb_enabled.unwrap_or(false), false);
    let size = boot_volume_size(cx, &labels)?;
    let image = origin.image_id.clone().unwrap_or_default();
    let wanted = Wanted {
        flavors: [&flavor, &master_flavor].into_iter().flatten().map(String::as_str).collect(),
        image: Some(&image),
        external_network: origin.external_network_id.as_deref(),
        fixed_network: fixed_network.as_deref(),
        fixed_subnet: fixed_subnet.as_deref(),
        keypair: keypair.as_deref(),
    };
    let found = cloud_checks::look_up(cx, &wanted).await?;
    for (key, name) in [("flavor_id", &flavor), ("master_flavor_id", &master_flavor)] {
        match name {
            Some(name) => found.root_disk(name, size)?,
            None if size <= 0 => return Err(ApiError::Invalid(format!("{key} is needed: neither the request nor the template has one."))),
            None => {}
        }
    }
    let of_nodes = found.image(&image)?;
    for name in &wanted.flavors {
        found.flavor(name)?;
    }
    found.networks(&wanted)?;
    if let Some(name) = &keypair {
        found.keypair(name)?;
    }
    if asked.master_count > 1 && !master_lb_enabled {
        return Err(ApiError::Invalid("master_count must be 1 when master_lb_enabled is False.".into()));
    }
    // Behind all of upstream's rules, for they are none of them.
    check_network_driver(driver, origin)?;
    // The Cluster API driver lays a cluster's labels over its template's, whatever was asked.
    let laid_over = || boot_volume_size(cx, &origin.labels().with(Some(labels.clone()), true)).unwrap_or(size);
    let volume = if driver == DriverName::K8sCapiHelmV1 { laid_over() } else { size };
    wanted.flavors.iter().try_for_each(|name| found.room(of_nodes, name, Some(volume)))?;
    let docker_volume_size = asked.docker_volume_size.or(origin.docker_volume_size);
    let (min_node_count, max_node_count) = bounds_of_workers(driver, &labels, asked.node_count);
    let group = |role, node_count, flavor: &Option<String>, min_node_count, max_node_count| DefaultNodegroup {
        role,
        node_count,
        min_node_count,
        max_node_count,
        flavor: flavor.clone(),
        image: origin.image_id.clone(),
        docker_volume_size,
    };
    let groups = [
        group(DefaultRole::Master, asked.master_count, &master_flavor, None, None),
        group(DefaultRole::Worker, asked.node_count, &flavor, min_node_count, max_node_count),
    ];
    let default_timeout = i32::try_from(cx.shared.settings.deadlines.create_minutes).unwrap_or(60);
    let spec = CreateSpec {
        id: ClusterId::generate(),
        name: asked.name.unwrap_or_else(|| greek_name("cluster")),
        template: origin.template_id(),
        project,
        user: cx.caller.user_id.clone(),
        keypair,
        docker_volume_size,
        labels,
        master_flavor,
        flavor,
        create_timeout: asked.create_timeout.unwrap_or(Some(default_timeout)),
        discovery_url: body.owned("discovery_url"),
        fixed_network,
        fixed_subnet,
        floating_ip_enabled,
        master_lb_enabled,
        health_status: None,
        health_status_reason: Labels::default(),
        note,
    };
    Ok(Checked { spec, groups, made_of: origin.fingerprint() })
}

/// Stores cluster, groups and operation together, rings, and answers.
async fn accept(cx: &Context, checked: &Checked, _: Allowed) -> Result<Answer, ApiError> {
    let answer = Answer::accepted(checked.spec.id.as_str())?;
    let (kept, new) = (&answer, &operation_of(cx, checked));
    cx.shared
        .store
        .write(async |conn: &mut Conn| {
            insert(conn, cx, checked, new).await?;
            cx.keep(conn, kept).await
        })
        .await?;
    cx.shared.doorbell.ring(new.id.clone());
    Ok(answer)
}

/// Stores them, takes that back, and tells what would come of them.
async fn rehearse(cx: &Context, checked: &Checked) -> Result<Answer, ApiError> {
    let new = &operation_of(cx, checked);
    let intent = cx
        .shared
        .store
        .transact(End::RollBack, async |conn: &mut Conn| {
            insert(conn, cx, checked, new).await?;
            dry_run::intent(conn, &new.cluster, new.kind, &new.payload).await
        })
        .await?;
    dry_run::answer(cx, &intent, None).await
}

fn operation_of(cx: &Context, checked: &Checked) -> NewOperation {
    let spec = &checked.spec;
    let operation_id = OperationId::generate();
    NewOperation {
        kind: OperationKind::ClusterCreate,
        cluster: spec.id.clone(),
        project: spec.project.clone(),
        user: spec.user.clone(),
        request_id: Some(cx.request_id.clone()),
        deadline: cx.shared.settings.deadlines.of(OperationKind::ClusterCreate, spec.create_timeout),
        payload: cx.asked(&Payload::default()),
        sealed_token: Some(cx.shared.sealer.seal(&operation_id, &cx.caller.token)),
        id: operation_id,
    }
}

/// All that is stored of a new cluster.
async fn insert(conn: &mut Conn, cx: &Context, checked: &Checked, new: &NewOperation) -> Result<(), StoreError> {
    let spec = &checked.spec;
    let demands = demands(cx, checked.groups.iter().map(|group| i64::from(group.node_count)).sum());
    quota::reserve(conn, &spec.project, &demands).await?;
    // The nodes are made of what the template says when they are made, the groups of what it said when this was checked: that is to be the same. From here on
    // the template is in use, and not changed.
    if template::lock(conn, &spec.template).await?.fingerprint() != checked.made_of {
        return Err(StoreError::Stale { what: "cluster template" });
    }
    cluster::insert(conn, spec).await?;
    nodegroup::insert_defaults(conn, spec, &checked.groups).await?;
    operation::insert(conn, new).await
}
