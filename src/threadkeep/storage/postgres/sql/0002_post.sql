-- The code before version 2 called these.
DROP FUNCTION threadkeep.follow(text, bytea, bigint, text, bigint, bigint, bigint);
DROP FUNCTION threadkeep.commit(
    text, bytea, bigint, bytea, text, text, text, text, text, bigint, bigint, bytea[], bigint[], bytea[], bytea[], bytea[],
    bytea[], text[], text[], text[], bigint[], bigint[], text[], text[], integer[], bytea[], bigint[], bigint[], text[], bigint[]
);
