#!/bin/sh
# Creates and migrates the Temporal server's databases in Postgres; safe to repeat. For the image temporalio/admin-tools, in
# the version of the server. Uses the server's variables: DB, DB_PORT, POSTGRES_SEEDS, POSTGRES_USER, POSTGRES_PWD.
set -eu

export SQL_PLUGIN="$DB" SQL_HOST="$POSTGRES_SEEDS" SQL_PORT="$DB_PORT" SQL_USER="$POSTGRES_USER" SQL_PASSWORD="$POSTGRES_PWD"

schema() {
  export SQL_DATABASE="$1"
  temporal-sql-tool create-database
  temporal-sql-tool setup-schema --version 0.0
  temporal-sql-tool update-schema --schema-name "postgresql/v12/$2"
}

schema temporal temporal
schema temporal_visibility visibility
