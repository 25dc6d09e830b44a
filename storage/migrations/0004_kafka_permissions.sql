-- Keys that allowed everything there was go on allowing everything.
update api_keys
   set permissions = permissions || '{dead_letters:read,dead_letters:write,kafka:read}'
 where permissions @> '{waits:read,waits:write,callbacks:write,inbox:read,inbox:write}'
   and permissions @> '{metrics:read,keys:write}'
   and not permissions @> '{kafka:read}';
