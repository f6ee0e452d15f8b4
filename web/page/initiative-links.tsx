/** Links to the user's initiatives, and to the one that the session has joined; null: none. They open in tabs of their own. */
export function InitiativeLinks({ joined }: { joined: string | null }) {
  return (
    <p className="commands">
      {joined !== null && (
        <a href={`/i/${encodeURIComponent(joined)}`} target="_blank" rel="opener">
          Initiative board
        </a>
      )}
      <a href="/i" target="_blank" rel="opener">
        Initiatives
      </a>
    </p>
  );
}
