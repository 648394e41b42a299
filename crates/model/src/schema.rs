//! The tables both databases share, as diesel sees them.
//!
//! Upstream's columns are nullable almost everywhere; they are declared as they are, except `uuid`, which every writer of these tables sets. A
//! row in which somebody has made it NULL cannot be read: queries that do not look for a uuid ask for rows that have one (`store/named.rs`), so
//! that such a row spoils nothing but itself.
//! Column order follows upstream's (both implementations address columns by name).

diesel::table! {
    cluster (id) {
        created_at -> Nullable<Timestamp>,
        updated_at -> Nullable<Timestamp>,
        id -> Integer,
        uuid -> Text,
        name -> Nullable<Text>,
        cluster_template_id -> Nullable<Text>,
        api_address -> Nullable<Text>,
        stack_id -> Nullable<Text>,
        project_id -> Nullable<Text>,
        user_id -> Nullable<Text>,
        status -> Nullable<Text>,
        discovery_url -> Nullable<Text>,
        status_reason -> Nullable<Text>,
        ca_cert_ref -> Nullable<Text>,
        magnum_cert_ref -> Nullable<Text>,
        create_timeout -> Nullable<Integer>,
        trust_id -> Nullable<Text>,
        trustee_username -> Nullable<Text>,
        trustee_user_id -> Nullable<Text>,
        trustee_password -> Nullable<Text>,
        coe_version -> Nullable<Text>,
        container_version -> Nullable<Text>,
        keypair -> Nullable<Text>,
        docker_volume_size -> Nullable<Integer>,
        labels -> Nullable<Text>,
        master_flavor_id -> Nullable<Text>,
        flavor_id -> Nullable<Text>,
        health_status -> Nullable<Text>,
        health_status_reason -> Nullable<Text>,
        fixed_network -> Nullable<Text>,
        fixed_subnet -> Nullable<Text>,
        floating_ip_enabled -> Nullable<Bool>,
        master_lb_enabled -> Nullable<Bool>,
        etcd_ca_cert_ref -> Nullable<Text>,
        front_proxy_ca_cert_ref -> Nullable<Text>,
    }
}

diesel::table! {
    cluster_template (id) {
        created_at -> Nullable<Timestamp>,
        updated_at -> Nullable<Timestamp>,
        id -> Integer,
        uuid -> Text,
        name -> Nullable<Text>,
        flavor_id -> Nullable<Text>,
        keypair_id -> Nullable<Text>,
        image_id -> Nullable<Text>,
        external_network_id -> Nullable<Text>,
        dns_nameserver -> Nullable<Text>,
        apiserver_port -> Nullable<Integer>,
        project_id -> Nullable<Text>,
        user_id -> Nullable<Text>,
        docker_volume_size -> Nullable<Integer>,
        fixed_network -> Nullable<Text>,
        master_flavor_id -> Nullable<Text>,
        cluster_distro -> Nullable<Text>,
        coe -> Nullable<Text>,
        http_proxy -> Nullable<Text>,
        https_proxy -> Nullable<Text>,
        no_proxy -> Nullable<Text>,
        registry_enabled -> Nullable<Bool>,
        network_driver -> Nullable<Text>,
        labels -> Nullable<Text>,
        tls_disabled -> Nullable<Bool>,
        public -> Nullable<Bool>,
        server_type -> Nullable<Text>,
        volume_driver -> Nullable<Text>,
        insecure_registry -> Nullable<Text>,
        docker_storage_driver -> Nullable<Text>,
        master_lb_enabled -> Nullable<Bool>,
        fixed_subnet -> Nullable<Text>,
        floating_ip_enabled -> Nullable<Bool>,
        hidden -> Nullable<Bool>,
        tags -> Nullable<Text>,
        driver -> Nullable<Text>,
    }
}

diesel::table! {
    nodegroup (id) {
        created_at -> Nullable<Timestamp>,
        updated_at -> Nullable<Timestamp>,
        id -> Integer,
        uuid -> Text,
        name -> Text,
        cluster_id -> Text,
        project_id -> Text,
        docker_volume_size -> Nullable<Integer>,
        labels -> Nullable<Text>,
        flavor_id -> Nullable<Text>,
        image_id -> Nullable<Text>,
        node_addresses -> Nullable<Text>,
        node_count -> Nullable<Integer>,
        max_node_count -> Nullable<Integer>,
        min_node_count -> Nullable<Integer>,
        role -> Nullable<Text>,
        is_default -> Nullable<Bool>,
        stack_id -> Nullable<Text>,
        status -> Nullable<Text>,
        status_reason -> Nullable<Text>,
        version -> Nullable<Text>,
    }
}

diesel::table! {
    x509keypair (id) {
        id -> Integer,
        created_at -> Nullable<Timestamp>,
        updated_at -> Nullable<Timestamp>,
        uuid -> Text,
        certificate -> Nullable<Text>,
        private_key -> Nullable<Text>,
        project_id -> Nullable<Text>,
        user_id -> Nullable<Text>,
        intermediates -> Nullable<Text>,
        private_key_passphrase -> Nullable<Text>,
    }
}

diesel::table! {
    quotas (id) {
        id -> Integer,
        created_at -> Nullable<Timestamp>,
        updated_at -> Nullable<Timestamp>,
        project_id -> Nullable<Text>,
        resource -> Nullable<Text>,
        hard_limit -> Integer,
    }
}

diesel::table! {
    federation (id) {
        created_at -> Nullable<Timestamp>,
        updated_at -> Nullable<Timestamp>,
        id -> Integer,
        project_id -> Nullable<Text>,
        uuid -> Text,
        name -> Nullable<Text>,
        hostcluster_id -> Nullable<Text>,
        member_ids -> Nullable<Text>,
        status -> Nullable<Text>,
        status_reason -> Nullable<Text>,
        properties -> Nullable<Text>,
    }
}

diesel::table! {
    magnum_service (id) {
        created_at -> Nullable<Timestamp>,
        updated_at -> Nullable<Timestamp>,
        id -> Integer,
        report_count -> Integer,
        host -> Nullable<Text>,
        binary -> Nullable<Text>,
        disabled -> Nullable<Bool>,
        disabled_reason -> Nullable<Text>,
        last_seen_up -> Nullable<Timestamp>,
        forced_down -> Nullable<Bool>,
    }
}

diesel::table! {
    alembic_version (version_num) {
        version_num -> Text,
    }
}

diesel::table! {
    operation (id) {
        id -> BigInt,
        uuid -> Text,
        kind -> Text,
        cluster_uuid -> Text,
        project_id -> Text,
        user_id -> Text,
        request_id -> Nullable<Text>,
        state -> Text,
        step -> Text,
        waiting_for -> Nullable<Text>,
        attempt -> Integer,
        generation -> Integer,
        owner -> Nullable<Text>,
        lease_ms -> Nullable<BigInt>,
        due_ms -> BigInt,
        deadline_ms -> BigInt,
        progress_done -> Integer,
        progress_total -> Integer,
        outcome_code -> Nullable<Text>,
        outcome_reason -> Nullable<Text>,
        payload -> Text,
        sealed_token -> Nullable<Text>,
        created_ms -> BigInt,
        updated_ms -> BigInt,
        finished_ms -> Nullable<BigInt>,
        started_ms -> Nullable<BigInt>,
        cancel_ms -> Nullable<BigInt>,
        cloud_error -> Nullable<Text>,
    }
}

diesel::table! {
    operation_event (id) {
        id -> BigInt,
        operation_uuid -> Text,
        cluster_uuid -> Text,
        at_ms -> BigInt,
        kind -> Text,
        message -> Text,
        details -> Nullable<Text>,
    }
}

diesel::table! {
    cloud_resource (id) {
        id -> BigInt,
        cluster_uuid -> Text,
        kind -> Text,
        name -> Text,
        resource_id -> Nullable<Text>,
        on_delete -> Text,
        created_ms -> BigInt,
        updated_ms -> BigInt,
    }
}

diesel::table! {
    ca_rotation (cluster_uuid) {
        cluster_uuid -> Text,
        generation -> Text,
        phase -> Text,
        ca_cert_ref -> Nullable<Text>,
        etcd_ca_cert_ref -> Nullable<Text>,
        front_proxy_ca_cert_ref -> Nullable<Text>,
        magnum_cert_ref -> Nullable<Text>,
        started_ms -> BigInt,
    }
}

diesel::table! {
    capi_placement (cluster_uuid) {
        cluster_uuid -> Text,
        management_cluster -> Text,
        placed_ms -> BigInt,
    }
}

diesel::table! {
    nodegroup_nodes (nodegroup_uuid) {
        nodegroup_uuid -> Text,
        cluster_uuid -> Text,
        node_labels -> Text,
        node_taints -> Text,
    }
}

diesel::table! {
    notification (id) {
        id -> BigInt,
        uuid -> Text,
        priority -> Text,
        body -> Text,
        created_ms -> BigInt,
    }
}

diesel::table! {
    task_lease (name) {
        name -> Text,
        owner -> Text,
        lease_ms -> BigInt,
    }
}

diesel::table! {
    cluster_health (cluster_uuid) {
        cluster_uuid -> Text,
        owner -> Nullable<Text>,
        due_ms -> BigInt,
        reported_ms -> Nullable<BigInt>,
        credentials_owner -> Nullable<Text>,
        credentials_due_ms -> Nullable<BigInt>,
        credentials_seen_ms -> Nullable<BigInt>,
        credentials_error -> Nullable<Text>,
        certificates_end_ms -> Nullable<BigInt>,
    }
}

diesel::table! {
    project_guard (project_id) {
        project_id -> Text,
        touched -> BigInt,
    }
}

diesel::table! {
    capi_guard (name) {
        name -> Text,
        touched -> BigInt,
    }
}

diesel::table! {
    event_guard (cluster_uuid) {
        cluster_uuid -> Text,
        touched -> BigInt,
    }
}

diesel::table! {
    idempotency_key (id) {
        id -> BigInt,
        project_id -> Text,
        #[sql_name = "idempotency_key"]
        key -> Text,
        fingerprint -> Text,
        holder -> Text,
        status -> Nullable<Integer>,
        location -> Nullable<Text>,
        body -> Nullable<Text>,
        created_ms -> BigInt,
    }
}

diesel::table! {
    adoption (id) {
        id -> Integer,
        found_revision -> Text,
        state -> Text,
        changed_ms -> BigInt,
    }
}

diesel::table! {
    set_aside (id) {
        id -> BigInt,
        kind -> Text,
        row_key -> Text,
        value -> Text,
        created_ms -> BigInt,
    }
}

diesel::allow_tables_to_appear_in_same_query!(capi_placement, cluster, cluster_health);
diesel::allow_tables_to_appear_in_same_query!(cloud_resource, cluster, operation);
