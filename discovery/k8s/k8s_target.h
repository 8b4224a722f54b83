/*
 * k8s_target - the name of a Kubernetes Service in a list of workers.
 *
 *     k8s:///NAMESPACE/SERVICE[:PORT]
 *     k8s:///SERVICE[:PORT]             in the pod's own namespace
 *
 * PORT is the name of a port of the Service, or a number. Names are labels of RFC 1123: 1 to 63 of
 * a-z 0-9 -, a letter or digit at both ends, as Kubernetes has them.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>

#define K8S_LABEL_MAX 63u
#define K8S_PORT_NAME "control" /* unless PORT says otherwise */

struct k8s_target {
    char name_space[K8S_LABEL_MAX + 1]; /* "": the pod's own */
    char service[K8S_LABEL_MAX + 1];
    char port[K8S_LABEL_MAX + 1];
};

/* Whether text begins with "k8s:". */
bool k8s_target_is_meant(const char *text);
/* INVALID_ARGUMENT: the sentence has the text and what is wrong with it. */
MUST_CHECK enum status k8s_target_parse(const char *text, struct k8s_target *target_out,
                                        struct error *error);

/* INVALID_ARGUMENT: not a label; what ("namespace") names it in the sentence. */
MUST_CHECK enum status k8s_label_check(const char *what, const char *label, struct error *error);
/* INVALID_ARGUMENT: neither a label nor a number from 1 to 65535. number_out: 0 for a name. */
MUST_CHECK enum status k8s_port_parse(const char *port, unsigned *number_out, struct error *error);
