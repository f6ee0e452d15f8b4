#!/bin/sh
# Makes the namespace unless it is there, and waits until the server knows it. For the image temporalio/admin-tools.
# Histories of ended workflows are kept for a week: sessions live in Postgres, and start from there.
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
