-- Keys that allowed everything there was go on allowing everything.
update api_keys
   set permissions = permissions || '{workflows:read}'
 where permissions @> '{collections:read,collections:write,records:read,records:write}'
   and permissions @> '{waits:read,waits:write,events:read,events:write,keys:write}'
   and not permissions @> '{workflows:read}';
