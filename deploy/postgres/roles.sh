#!/bin/sh
# Create the owner of the tables and the user of the processes in a new database of the PostgreSQL image.
set -eu
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" \
    -v owner="$(cat "$OWNER_PASSWORD_FILE")" -v app="$(cat "$APP_PASSWORD_FILE")" <<'SQL'
CREATE ROLE memory_owner LOGIN CREATEROLE PASSWORD :'owner';
CREATE ROLE memory_app LOGIN PASSWORD :'app';
CREATE SCHEMA threadkeep AUTHORIZATION memory_owner;
SQL
