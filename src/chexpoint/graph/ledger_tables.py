"""The tables of a ledger, the same in SQLite and in PostgreSQL."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    inspect,
    select,
    text,
)

from chexpoint.errors import GraphError

SCHEMA = 1
"""Counts up with each change of the tables; a ledger of a higher one is not touched."""

ADVISORY_LOCK = int.from_bytes(b"CHEX")
"""What PostgreSQL knows the turn by to make tables, or to collect what is not used."""

METADATA = MetaData()

LEDGER = Table(
    "chex_ledger",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""What the ledger says of itself: its schema."""

OPERATION = Table(
    "chex_operation",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("code", Text, nullable=False),
    Column("packages", Text, nullable=False),
    Column("time", Double, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("frequency", Integer, nullable=False),
    Column("document", Text, nullable=False),
    Index("chex_operation_of_code", "code", "packages", "time"),
)

RECORD = Table(
    "chex_record",
    METADATA,
    Column("operation", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("mark", Text, nullable=False),
)
"""Lineage and outputs of the newest run of an operation."""

ARTIFACT = Table(
    "chex_artifact",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("operation", Text, nullable=False),
    Column("frequency", Integer, nullable=False),
    Column("score", Double),
    Column("used", Double, nullable=False),
    Column("is_unsure", Integer, nullable=False),
    Column("image", Text),
    Column("stored_bytes", BigInteger, nullable=False),
    Column("load_s", Double, nullable=False),
    Column("document", Text, nullable=False),
    Index("chex_artifact_in_image", "image"),
)
"""Without an image it is not stored; with an empty one it is in the table of contents."""

CONTENTS = Table(
    "chex_contents",
    METADATA,
    Column("artifact", Text, primary_key=True),
    Column("data", Text, nullable=False),
    Column("mark", Text, nullable=False),
)

LOAD = Table(
    "chex_load",
    METADATA,
    # SQLite counts up by itself only in a column of just this type.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("backend", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
    Index("chex_load_of_kind", "backend", "kind", "id"),
)

PROJECT = Table(
    "chex_project",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("folder", Text, nullable=False),
    Column("seen", Double, nullable=False),
)

USE = Table(
    "chex_use",
    METADATA,
    Column("artifact", Text, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("time", Double, nullable=False),
    Index("chex_use_of_project", "project"),
)
"""When a project computed or loaded an artifact last; one that has no name is empty."""


def schema_of(connection: Connection, where: str) -> int:
    """Return the schema of a ledger; 0 if there is none yet.

    Raises
    ------
    GraphError
        If the database is somebody else's, or of a newer version.
    """
    tables = set(inspect(connection).get_table_names())
    if LEDGER.name not in tables:
        # A server may hold other tables beside ours; a file of others is left alone.
        if tables and connection.dialect.name == "sqlite":
            raise GraphError(f"{where} is not a graph of CHEX. Choose another file.")
        return 0
    query = select(LEDGER.c.value).where(LEDGER.c.key == "schema")
    value = str(connection.execute(query).scalar())
    if not value.isascii() or not value.isdigit() or int(value) == 0:
        raise GraphError(f"{where} is damaged: it has no schema. Choose another one.")
    if int(value) > SCHEMA:
        raise GraphError(
            f"{where} was written by a newer version of CHEX (schema {value[:9]}, this one knows"
            f" {SCHEMA}). Update chexpoint to use it."
        )
    return int(value)


def make_tables(connection: Connection, where: str) -> None:
    """Make the tables, unless somebody else just did; within the transaction of the caller."""
    take_turn(connection)
    if schema_of(connection, where) == 0:
        METADATA.create_all(connection)
        connection.execute(LEDGER.insert(), {"key": "schema", "value": str(SCHEMA)})


def take_turn(connection: Connection) -> None:
    """Wait until nobody else does what only one may do at a time, until the transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite lets only one write in any case
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
