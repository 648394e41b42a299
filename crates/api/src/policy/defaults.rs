//! The rules that hold unless the operator says otherwise (rest-api.md 4.2), written in the language of policy files.

/// Rules that others are made of, with the names that operators' own policy files may refer to.
const BASE: &[(&str, &str)] = &[
    ("context_is_admin", "role:admin"),
    ("admin_api", "rule:context_is_admin"),
    ("admin_or_owner", "is_admin:True or project_id:%(project_id)s"),
    ("admin_or_user", "is_admin:True or user_id:%(user_id)s"),
    ("is_cluster_owner", "user_id:%(user_id)s"),
    ("cluster_user", "user_id:%(trustee_user_id)s"),
    ("deny_cluster_user", "not domain_id:%(trustee_domain_id)s"),
    ("project_reader", "rule:context_is_admin or (role:reader and project_id:%(project_id)s)"),
    ("project_member", "rule:context_is_admin or (role:member and project_id:%(project_id)s)"),
    ("project_reader_deny_cluster_user", "rule:project_reader and rule:deny_cluster_user"),
    ("project_member_deny_cluster_user", "rule:project_member and rule:deny_cluster_user"),
    ("owner_reader", "rule:context_is_admin or (role:reader and project_id:%(project_id)s and user_id:%(user_id)s)"),
    ("owner_member", "rule:context_is_admin or (role:member and project_id:%(project_id)s and user_id:%(user_id)s)"),
];

const ADMIN: &str = "rule:context_is_admin";
const READER: &str = "rule:project_reader";
const MEMBER: &str = "rule:project_member";
/// Also refuses the users that cluster nodes act as.
const PERSON_READER: &str = "rule:project_reader_deny_cluster_user";
const PERSON_MEMBER: &str = "rule:project_member_deny_cluster_user";
const OWNER_READER: &str = "rule:owner_reader";
const OWNER_MEMBER: &str = "rule:owner_member";

macro_rules! acts {
    ($($act:ident = $name:literal => $rule:expr),+ $(,)?) => {
        /// Something that a policy decides about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Act { $($act),+ }

        impl Act {
            /// The name of its rule.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$act => $name),+ }
            }
        }

        const ACTS: &[(&str, &str)] = &[$(($name, $rule)),+];
    };
}

acts!(
    ClusterCreate = "cluster:create" => PERSON_MEMBER,
    ClusterGet = "cluster:get" => PERSON_READER,
    ClusterGetAll = "cluster:get_all" => PERSON_READER,
    ClusterDetail = "cluster:detail" => PERSON_READER,
    ClusterDelete = "cluster:delete" => PERSON_MEMBER,
    ClusterGetOneEverywhere = "cluster:get_one_all_projects" => ADMIN,
    ClusterGetAllEverywhere = "cluster:get_all_all_projects" => ADMIN,
    ClusterDetailEverywhere = "cluster:detail_all_projects" => ADMIN,
    ClusterDeleteEverywhere = "cluster:delete_all_projects" => ADMIN,
    TemplateCreate = "clustertemplate:create" => PERSON_MEMBER,
    TemplateGet = "clustertemplate:get" => PERSON_READER,
    TemplateGetAll = "clustertemplate:get_all" => PERSON_READER,
    TemplateDetail = "clustertemplate:detail" => PERSON_READER,
    TemplateUpdate = "clustertemplate:update" => PERSON_MEMBER,
    TemplateDelete = "clustertemplate:delete" => PERSON_MEMBER,
    TemplatePublish = "clustertemplate:publish" => ADMIN,
    TemplateGetOneEverywhere = "clustertemplate:get_one_all_projects" => ADMIN,
    TemplateGetAllEverywhere = "clustertemplate:get_all_all_projects" => ADMIN,
    TemplateDetailEverywhere = "clustertemplate:detail_all_projects" => ADMIN,
    TemplateUpdateEverywhere = "clustertemplate:update_all_projects" => ADMIN,
    TemplateDeleteEverywhere = "clustertemplate:delete_all_projects" => ADMIN,
    CertificateGet = "certificate:get" => OWNER_READER,
    CertificateCreate = "certificate:create" => OWNER_MEMBER,
    ServiceGetAll = "magnum-service:get_all" => ADMIN,
);

/// Rules of routes that come later: an operator's file may refer to them already.
const LATER: &[(&str, &str)] = &[
    ("cluster:update", PERSON_MEMBER),
    ("cluster:resize", PERSON_MEMBER),
    ("cluster:upgrade", PERSON_MEMBER),
    ("cluster:update_health_status", OWNER_MEMBER),
    ("cluster:update_all_projects", ADMIN),
    ("cluster:upgrade_all_projects", ADMIN),
    ("certificate:rotate_ca", MEMBER),
    ("nodegroup:get", READER),
    ("nodegroup:get_all", READER),
    ("nodegroup:create", MEMBER),
    ("nodegroup:update", MEMBER),
    ("nodegroup:delete", MEMBER),
    ("nodegroup:get_one_all_projects", ADMIN),
    ("nodegroup:get_all_all_projects", ADMIN),
    ("credential:rotate", "role:member and project_id:%(project_id)s"),
    ("quota:get", READER),
    ("quota:get_all", ADMIN),
    ("quota:create", ADMIN),
    ("quota:update", ADMIN),
    ("quota:delete", ADMIN),
    ("stats:get_all", READER),
    ("federation:create", PERSON_MEMBER),
    ("federation:get", PERSON_READER),
    ("federation:get_all", PERSON_READER),
    ("federation:detail", PERSON_READER),
    ("federation:update", PERSON_MEMBER),
    ("federation:delete", PERSON_MEMBER),
];

/// Every default rule: name and text.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    BASE.iter().chain(ACTS).chain(LATER).copied()
}
