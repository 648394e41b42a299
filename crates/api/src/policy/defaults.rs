//! The rules that hold unless the operator says otherwise (rest-api.md 4.2): upstream's names and texts, because operators' own files refer to them,
//! and ours for what upstream does not have.

/// A rule that later releases replaced. It counts beside its successor unless `enforce_new_defaults` is on, and an operator's own version of it
/// takes the successor's place.
pub struct Deprecated {
    /// As upstream registers it: with the prefix, which an operator's file would have to repeat.
    pub name: &'static str,
    pub text: &'static str,
}

/// A rule that holds unless a file has its own.
pub struct Default {
    pub name: &'static str,
    pub text: &'static str,
    pub before: Option<&'static Deprecated>,
}

const ADMIN_OR_OWNER: &Deprecated = &Deprecated { name: "rule:admin_or_owner", text: "is_admin:True or project_id:%(project_id)s" };
const ADMIN_OR_USER: &Deprecated = &Deprecated { name: "rule:admin_or_user", text: "((rule:context_is_admin) or (rule:is_user))" };
const ADMIN_OR_USER_OR_CLUSTER_USER: &Deprecated =
    &Deprecated { name: "rule:admin_or_user_or_cluster_user", text: "((rule:context_is_admin) or (rule:user_or_cluster_user))" };
const DENY_CLUSTER_USER: &Deprecated = &Deprecated { name: "rule:deny_cluster_user", text: "not domain_id:%(trustee_domain_id)s" };

const fn plain(name: &'static str, text: &'static str) -> Default {
    Default { name, text, before: None }
}

const fn replacing(name: &'static str, text: &'static str, before: &'static Deprecated) -> Default {
    Default { name, text, before: Some(before) }
}

/// Rules that others are made of.
pub const BASE: &[Default] = &[
    plain("context_is_admin", "role:admin"),
    plain("admin_or_owner", "is_admin:True or project_id:%(project_id)s"),
    plain("admin_or_user", "is_admin:True or user_id:%(user_id)s"),
    plain("is_user", "user_id:%(user_id)s"),
    plain("cluster_user", "user_id:%(trustee_user_id)s"),
    plain("deny_cluster_user", "not domain_id:%(trustee_domain_id)s"),
    plain("project_member", "role:member and project_id:%(project_id)s"),
    plain("project_reader", "role:reader and project_id:%(project_id)s"),
    replacing("admin_or_project_reader", "(rule:context_is_admin) or (rule:project_reader)", ADMIN_OR_OWNER),
    replacing("admin_or_project_member", "(rule:context_is_admin) or (rule:project_member)", ADMIN_OR_OWNER),
    replacing("admin_or_project_member_user", "(rule:context_is_admin) or ((rule:project_member) and (rule:is_user))", ADMIN_OR_USER),
    plain("user_or_cluster_user", "((rule:is_user) or (rule:cluster_user))"),
    plain("admin_or_user_or_cluster_user", "((rule:context_is_admin) or (rule:user_or_cluster_user))"),
    plain("admin_or_project_member_cluster_user", "(rule:context_is_admin) or ((rule:project_member) and (rule:cluster_user))"),
    replacing(
        "admin_or_project_member_user_or_cluster_user",
        "(rule:context_is_admin) or ((rule:project_member) and (rule:user_or_cluster_user))",
        ADMIN_OR_USER_OR_CLUSTER_USER,
    ),
    replacing("project_member_deny_cluster_user", "((rule:project_member) and (rule:deny_cluster_user))", DENY_CLUSTER_USER),
    replacing(
        "admin_or_project_member_deny_cluster_user",
        "(rule:context_is_admin) or (rule:project_member_deny_cluster_user)",
        DENY_CLUSTER_USER,
    ),
    replacing("project_reader_deny_cluster_user", "((rule:project_reader) and (rule:deny_cluster_user))", DENY_CLUSTER_USER),
    replacing(
        "admin_or_project_reader_deny_cluster_user",
        "(rule:context_is_admin) or (rule:project_reader_deny_cluster_user)",
        DENY_CLUSTER_USER,
    ),
    replacing("admin_or_project_reader_user", "(rule:context_is_admin) or ((rule:project_reader) and (rule:is_user))", ADMIN_OR_USER),
];

/// May be asked with a token of any scope; all others want one of a project.
const ADMIN: &str = "rule:context_is_admin";
const READER: &str = "rule:admin_or_project_reader";
const MEMBER: &str = "rule:admin_or_project_member";
/// Also refuses the users that cluster nodes act as.
const PERSON_READER: &str = "rule:admin_or_project_reader_deny_cluster_user";
const PERSON_MEMBER: &str = "rule:admin_or_project_member_deny_cluster_user";
const OWNER_READER: &str = "rule:admin_or_project_reader_user";
const OWNER_MEMBER: &str = "rule:admin_or_project_member_user";
const HEALTH_REPORTER: &str = "rule:admin_or_project_member_user_or_cluster_user";
/// No shortcut for admins.
const PERSON_MEMBER_ONLY: &str = "rule:project_member_deny_cluster_user";

macro_rules! acts {
    ($($act:ident = $name:literal => $rule:expr),+ $(,)?) => {
        /// Something that a policy decides about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Act { $($act),+ }

        impl Act {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$act),+];

            /// The name of its rule.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$act => $name),+ }
            }

            /// Its default.
            pub fn rule(self) -> &'static str {
                match self { $(Self::$act => $rule),+ }
            }
        }
    };
}

acts!(
    ClusterCreate = "cluster:create" => PERSON_MEMBER,
    ClusterGet = "cluster:get" => PERSON_READER,
    ClusterGetAll = "cluster:get_all" => PERSON_READER,
    ClusterDetail = "cluster:detail" => PERSON_READER,
    ClusterUpdate = "cluster:update" => PERSON_MEMBER,
    ClusterUpdateHealth = "cluster:update_health_status" => HEALTH_REPORTER,
    ClusterDelete = "cluster:delete" => PERSON_MEMBER,
    ClusterResize = "cluster:resize" => PERSON_MEMBER,
    ClusterUpgrade = "cluster:upgrade" => PERSON_MEMBER,
    ClusterRetry = "cluster:retry" => PERSON_MEMBER,
    ClusterCancel = "cluster:cancel" => PERSON_MEMBER,
    // They may leave things in the cloud that nobody owns.
    ClusterForceDelete = "cluster:force_delete" => ADMIN,
    ClusterAbandon = "cluster:abandon" => ADMIN,
    // Gives somebody else the certificates of the cluster.
    ClusterTransfer = "cluster:transfer" => ADMIN,
    OperationGet = "operation:get" => PERSON_READER,
    OperationGetAll = "operation:get_all" => PERSON_READER,
    OperationGetOneEverywhere = "operation:get_one_all_projects" => ADMIN,
    OperationGetAllEverywhere = "operation:get_all_all_projects" => ADMIN,
    EventGetAll = "event:get_all" => PERSON_READER,
    ClusterGetOneEverywhere = "cluster:get_one_all_projects" => ADMIN,
    ClusterGetAllEverywhere = "cluster:get_all_all_projects" => ADMIN,
    ClusterDetailEverywhere = "cluster:detail_all_projects" => ADMIN,
    ClusterUpdateEverywhere = "cluster:update_all_projects" => ADMIN,
    ClusterDeleteEverywhere = "cluster:delete_all_projects" => ADMIN,
    ClusterUpgradeEverywhere = "cluster:upgrade_all_projects" => ADMIN,
    TemplateCreate = "clustertemplate:create" => PERSON_MEMBER,
    TemplateGet = "clustertemplate:get" => PERSON_READER,
    TemplateGetAll = "clustertemplate:get_all" => PERSON_READER,
    TemplateDetail = "clustertemplate:detail" => PERSON_READER,
    TemplateUpdate = "clustertemplate:update" => MEMBER,
    TemplateDelete = "clustertemplate:delete" => MEMBER,
    TemplatePublish = "clustertemplate:publish" => ADMIN,
    TemplateGetOneEverywhere = "clustertemplate:get_one_all_projects" => ADMIN,
    TemplateGetAllEverywhere = "clustertemplate:get_all_all_projects" => ADMIN,
    TemplateDetailEverywhere = "clustertemplate:detail_all_projects" => ADMIN,
    TemplateUpdateEverywhere = "clustertemplate:update_all_projects" => ADMIN,
    TemplateDeleteEverywhere = "clustertemplate:delete_all_projects" => ADMIN,
    NodegroupGet = "nodegroup:get" => READER,
    NodegroupGetAll = "nodegroup:get_all" => READER,
    NodegroupCreate = "nodegroup:create" => MEMBER,
    NodegroupUpdate = "nodegroup:update" => MEMBER,
    NodegroupDelete = "nodegroup:delete" => MEMBER,
    NodegroupGetOneEverywhere = "nodegroup:get_one_all_projects" => ADMIN,
    NodegroupGetAllEverywhere = "nodegroup:get_all_all_projects" => ADMIN,
    CertificateGet = "certificate:get" => OWNER_READER,
    CertificateCreate = "certificate:create" => OWNER_MEMBER,
    CertificateRotate = "certificate:rotate_ca" => MEMBER,
    CredentialRotate = "credential:rotate" => PERSON_MEMBER_ONLY,
    QuotaGet = "quota:get" => READER,
    QuotaGetAll = "quota:get_all" => ADMIN,
    QuotaCreate = "quota:create" => ADMIN,
    QuotaUpdate = "quota:update" => ADMIN,
    QuotaDelete = "quota:delete" => ADMIN,
    StatsGetAll = "stats:get_all" => READER,
    ServiceGetAll = "magnum-service:get_all" => ADMIN,
    FederationCreate = "federation:create" => PERSON_MEMBER,
    FederationGet = "federation:get" => PERSON_READER,
    FederationGetAll = "federation:get_all" => PERSON_READER,
    FederationDetail = "federation:detail" => PERSON_READER,
    FederationUpdate = "federation:update" => PERSON_MEMBER,
    FederationDelete = "federation:delete" => PERSON_MEMBER,
);

impl Act {
    /// Whether it wants a token of a project when `enforce_scope` is on. What only admins may do, upstream leaves open to every scope.
    pub fn wants_project(self) -> bool {
        self.rule() != ADMIN
    }
}

/// Rules of ours, for what upstream does not have.
#[cfg(test)]
pub const OURS: &[Act] = &[
    Act::ClusterRetry,
    Act::ClusterCancel,
    Act::ClusterForceDelete,
    Act::ClusterAbandon,
    Act::ClusterTransfer,
    Act::OperationGet,
    Act::OperationGetAll,
    Act::OperationGetOneEverywhere,
    Act::OperationGetAllEverywhere,
    Act::EventGetAll,
];

/// Every default rule.
pub fn all() -> impl Iterator<Item = Default> {
    let base = BASE.iter().map(|d| Default { name: d.name, text: d.text, before: d.before });
    base.chain(Act::ALL.iter().map(|act| plain(act.as_str(), act.rule())))
}

/// Whether an operator's rule of this name stands for rules that replaced it.
pub fn is_deprecated(name: &str) -> bool {
    BASE.iter().any(|default| default.before.is_some_and(|before| before.name == name))
}
