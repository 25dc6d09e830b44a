-- Who makes ids with which number, and until when. A number that is drawn from a sequence comes
-- round again while its first holder still lives.
create table id_maker_leases (
    maker_no     int primary key check (maker_no between 0 and 1023),
    holder       text not null,
    leased_until timestamptz not null
);
