-- One rule of a project for each pattern: two answers at once had made two, and the one that was left over when the other was
-- revoked still allowed calls. The newer one stays. A digest, because a pattern may be longer than an entry of an index.
LOCK TABLE project_permissions IN SHARE ROW EXCLUSIVE MODE;
DELETE FROM project_permissions older USING project_permissions newer
 WHERE newer.project_id = older.project_id AND newer.permission = older.permission AND newer.pattern = older.pattern
   AND newer.n > older.n;
CREATE UNIQUE INDEX project_permissions_by_pattern ON project_permissions (project_id, permission, md5(pattern));
