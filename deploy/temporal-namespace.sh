#!/bin/sh
# Creates the namespace if it does not exist, and waits until the server has loaded it. For the image temporalio/admin-tools.
# Histories of closed workflows are kept for a week; sessions are stored in Postgres and restart from there.
set -eu

namespace="$TEMPORAL_NAMESPACE"
temporal operator namespace describe --namespace "$namespace" >/dev/null 2>&1 ||
  temporal operator namespace create --namespace "$namespace" --retention 168h

tries=0
until temporal workflow list --namespace "$namespace" --limit 1 >/dev/null; do
  tries=$((tries + 1))
  [ "$tries" -lt 30 ] || exit 1
  sleep 1
done
